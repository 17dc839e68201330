// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/ask/measure_options.hpp"
#include "bench/ask/option.hpp"
#include "bench/ask/point.hpp"

namespace ringspan::bench {

std::span<const OptionEntry> sweep_option_entries();

struct SweepOptions {
  Axes axes;
  MeasureOptions measure;
  std::string csv;  // empty: none is written
  bool resume = false;
};

/// Throws invalid_argument with one line that names the option, and lists the known values.
SweepOptions sweep_options(const OptionTexts& texts, const Clusters& clusters);

}  // namespace ringspan::bench
