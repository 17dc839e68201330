// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "bench/ask/measure_options.hpp"
#include "bench/ask/point.hpp"

namespace ringspan::bench {

/// An option of `ringspan sweep`, as the command line and configuration files know it.
struct OptionEntry {
  std::string_view name;  // "--seq"
  std::string_view help;
  bool flag = false;
};
std::span<const OptionEntry> sweep_option_entries();

/// Options that were given, by name, as they were written; flags have an empty text.
using OptionTexts = std::map<std::string, std::string, std::less<>>;

struct SweepOptions {
  Axes axes;
  MeasureOptions measure;
  std::string csv;  // empty: none is written
  bool resume = false;
};

/// Throws invalid_argument with one line that names the option, and lists the known values.
SweepOptions sweep_options(const OptionTexts& texts);

}  // namespace ringspan::bench
