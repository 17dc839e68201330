// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/ring_place.hpp"

namespace ringspan::attention {

/// One rank's block on its way around a ring: to the last rank that needs it. In a double ring that
/// is the last node with such a rank and, in each node up to it, the last one there.
struct RingBlock {
  std::int64_t tokens;
  std::vector<int> turns;  // [nodes from home]: hops in the inner ring; one turn in a plain ring

  int hops() const { return turns.front(); }  // of a plain ring
};

/// [rank], from positions alone. Inner rings are of `inner_ranks` consecutive ranks, or one ring.
std::vector<RingBlock> ring_blocks(const Problem& problem, LayoutKind layout, int ranks,
                                   int inner_ranks, Travelling travelling = Travelling::kv);

}  // namespace ringspan::attention
