// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// One rank's block of keys on its way around a ring.
struct RingBlock {
  std::int64_t tokens;
  int journey;  // hops until the last rank that sees any of it has it
};

/// [rank], from positions alone.
std::vector<RingBlock> ring_blocks(const Problem& problem, LayoutKind layout, int ranks);

}  // namespace ringspan::attention
