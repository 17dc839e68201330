// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "bench/judge/metrics.hpp"

namespace ringspan::bench {

/// What was measured at one point. Figures per rank are the maximum over ranks, except the rate,
/// which is the whole work by the whole time, divided by the ranks.
struct Result {
  Metrics metrics;
  double tokens_per_s = 0;
  std::optional<double> tflops_per_rank = {};  // empty for kernels that compute no attention
  std::optional<double> strong_efficiency = {}, weak_efficiency = {};
  std::int64_t bytes_sent = 0, inter_node_bytes = 0, messages_sent = 0, peak_bytes = 0;
  std::optional<double> max_abs_error = {};
};

}  // namespace ringspan::bench
