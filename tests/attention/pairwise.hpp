// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ringspan::attention {

/// Rows with one value index per axis, few, such that for any two axes every pair of values occurs
/// in some row: most faults depend on at most two choices. Another seed gives another such cover.
std::vector<std::vector<int>> pairwise_cover(const std::vector<int>& axis_sizes,
                                             std::uint64_t seed);

}  // namespace ringspan::attention
