// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/buffer.hpp"

namespace ringspan::bench {

/// Elements (fp32) that say where they come from and where they belong. Sums over all sources are
/// whole numbers below 2^24 up to 4,096 ranks, so they are exact in whatever order they are added.
inline constexpr std::int64_t kLabelBytes = sizeof(float);

/// Element i of the slice becomes label `first` + i of what `source` has for `destination`.
void write_labels(const comm::Slice& slice, int source, int destination, std::int64_t first = 0);

/// Elements that are to be received; none of them is a label.
void clear_labels(const comm::Slice& slice);

/// How many elements are not what write_labels writes, or not its sum over sources 0 to ranks - 1.
std::int64_t wrong_labels(const comm::Slice& slice, int source, int destination);
std::int64_t wrong_sums(const comm::Slice& slice, int ranks, std::int64_t first);

}  // namespace ringspan::bench
