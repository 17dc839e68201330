// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/ask/option.hpp"
#include "bench/memory/measured.hpp"
#include "bench/memory/problem.hpp"

namespace ringspan::bench {

struct MemoryOptions {
  std::optional<MemoryProblem> problem = {};     // in place of published figures
  std::optional<MeasuredProblem> measured = {};  // likewise
  std::vector<std::string> published;            // files, or a folder; empty: what comes along
  std::vector<std::string> tables;               // by name; empty: all
  std::string csv;                               // empty: no file
};

std::span<const OptionEntry> memory_option_entries();

/// Throws invalid_argument with one line that names the option.
MemoryOptions memory_options(const OptionTexts& texts);

}  // namespace ringspan::bench
