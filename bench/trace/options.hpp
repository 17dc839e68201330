// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/ask/measure_options.hpp"
#include "bench/ask/option.hpp"
#include "bench/ask/point.hpp"

namespace ringspan::bench {

struct TraceOptions {
  Axes axes;  // of one value each
  MeasureOptions measure;
  std::string output;
};

/// Those of a sweep but for what several points, iterations and rows need.
std::span<const OptionEntry> trace_option_entries();

/// Throws invalid_argument with one line that names the option.
TraceOptions trace_options(OptionTexts texts, const Clusters& clusters);

}  // namespace ringspan::bench
