// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/ask/option.hpp"

namespace ringspan::bench {

struct ProbeOptions {
  std::string transport = "threads";
  int ranks = 0;           // 0: every process; two threads
  int ranks_per_node = 0;  // 0: as the machines say
  double seconds = 1;
  std::string json;     // empty: no file
  std::string cluster;  // likewise
};

std::span<const OptionEntry> probe_option_entries();

/// Throws invalid_argument with one line that names the option, and lists the known values.
ProbeOptions probe_options(const OptionTexts& texts);

}  // namespace ringspan::bench
