// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace ringspan::bench {

/// How each point is measured; the same for all points of a sweep.
struct MeasureOptions {
  std::optional<double> softmax_scale = {}, softcap = {};
  bool sinks = false;
  int warmup = 1;
  int repeats = 5;
  bool check = false;
  std::uint64_t seed = 1;
  std::optional<double> deadline = {};  // seconds without progress; unset: as the environment says
  double point_timeout = 600;           // seconds
};

}  // namespace ringspan::bench
