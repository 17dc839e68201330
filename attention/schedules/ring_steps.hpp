// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/gradient_ring.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// One turn of the ring's loop on one rank: which block is here, and what moves meanwhile.
struct RingStep {
  std::int64_t tokens = 0;           // of the block that is here
  std::vector<Tile> tiles = {};      // what this rank's queries see of it
  std::int64_t sent = 0;             // bytes of K and V to next()
  std::int64_t received = 0;         // bytes of K and V from prev()
  GradientRing::Move gradient = {};  // what follows them in the backward pass
};

/// At step s a rank holds the block of the s-th rank behind it, for as long as that block travels:
/// to the last rank that sees any of it. There are as many steps as the longest journey needs, on
/// all ranks alike, and each rank derives its own from the shards of all.
std::vector<RingStep> ring_steps(const Problem& problem, LayoutKind layout, int ranks, int rank);

}  // namespace ringspan::attention
