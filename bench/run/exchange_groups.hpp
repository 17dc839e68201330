// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bench/ask/point.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

/// The groups in which a point's all-to-alls are, of ranks on these places: [group][rank in it] is
/// a rank of the world.
std::vector<std::vector<int>> exchange_groups(const Point& point,
                                              const std::vector<comm::Place>& places);

}  // namespace ringspan::bench
