// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/gradient_ring.hpp"
#include "attention/tile.hpp"
#include "comm/bidirectional_ring.hpp"

namespace ringspan::attention {

/// One of the two blocks that a rank holds at a step, which go opposite ways.
struct BidirectionalBlock {
  std::int64_t tokens = 0;
  std::vector<Tile> tiles = {};  // what this rank's queries see of it
  GradientRing::Move gradient = {};
};

/// One turn of the loop on one rank, and what moves meanwhile.
struct BidirectionalStep {
  BidirectionalBlock front, back;  // to the next rank, to the previous one
  comm::BidirectionalRing::Halves sent = {}, received = {};
};

/// At step s a rank holds the front of the s-th rank behind it and the back of the s-th in front,
/// each block for as long as it travels: to the last rank that needs it among the half of all ranks
/// that lie this way (in front one more than behind, if the others are odd in number). At step 0
/// both are its own block, which is used as the front.
std::vector<BidirectionalStep> bidirectional_steps(const Problem& problem, LayoutKind layout,
                                                   int ranks, int rank);

}  // namespace ringspan::attention
