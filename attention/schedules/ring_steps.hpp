// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/double_gradient_ring.hpp"
#include "attention/schedules/ring_place.hpp"
#include "attention/tile.hpp"
#include "comm/double_ring.hpp"

namespace ringspan::attention {

/// One turn of the ring's loop on one rank: which block is here, and what of it.
struct RingStep {
  std::int64_t tokens = 0;           // of the block
  std::vector<Tile> tiles = {};      // what this rank's queries see, or its keys show, of it
  int turn = 0;                      // of an inner ring
  GradientRing::Move gradient = {};  // what follows the block in the backward pass
};

/// The steps of one rank, and what they have in common.
struct RingSteps {
  std::vector<RingStep> steps;
  std::vector<comm::DoubleRing::Step> hops;     // [step]
  std::vector<DoubleGradientRing::Turn> turns;  // [turn]
  std::int64_t largest = 0;                     // block of any rank, in tokens
  std::int64_t backward_bytes = 0;  // that all ranks send together if these blocks travel
};

/// Each block travels only as far as any rank needs it, and so does its gradient: outwards to the
/// last node with such a rank, and within a node to the last of them. In a step a rank holds the
/// block that stands as many places before it in both rings as the step says. There are as many
/// steps as the longest journeys need, on all ranks alike, and each rank derives its own from the
/// shards of all.
RingSteps ring_steps(const Problem& problem, LayoutKind layout, const RingPlace& place,
                     Travelling travelling = Travelling::kv);

}  // namespace ringspan::attention
