// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/ask/option.hpp"

namespace ringspan::bench {

struct ValidateOptions {
  std::vector<std::string> published;  // files, or a folder; empty: what comes with the program
  std::vector<std::string> tables;     // by name; empty: all
  std::string csv;                     // empty: no file
};

std::span<const OptionEntry> validate_option_entries();

/// Throws invalid_argument with one line that names the option.
ValidateOptions validate_options(const OptionTexts& texts);

}  // namespace ringspan::bench
