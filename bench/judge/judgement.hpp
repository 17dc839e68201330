// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "bench/judge/result.hpp"
#include "bench/run/measure.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// The figures of one point; `flops` is empty for kernels that compute no attention.
Result result_of(const Point& point, const Measurement& measurement, std::optional<double> flops);

/// "ok", or "invalid: ..." if a rank sent other bytes or messages than the closed form says, or the
/// checked output is wrong.
std::string judge(const Measurement& measurement);

/// "ok", or "invalid: ..." if the ranks together cannot have computed so fast. `peak_gflops`: of
/// all cores that they used.
std::string judge_speed(const Point& point, const Result& result, double peak_gflops);

/// "ok", or "does not fit: ..." if a rank takes more memory than a GPU has: the figures are right,
/// but of no use there.
std::string judge_fit(const Result& result, const comm::Cluster& cluster);

}  // namespace ringspan::bench
