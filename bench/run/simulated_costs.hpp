// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench/ask/point.hpp"
#include "bench/run/known_costs.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// What the automatic all-to-alls of a simulated point go by: of each group that exchanges, what
/// the cluster tells about messages in it. Throws as simulated_launch().
std::vector<ProbedCosts> simulated_costs(const Point& point, const comm::Cluster& cluster);

}  // namespace ringspan::bench
