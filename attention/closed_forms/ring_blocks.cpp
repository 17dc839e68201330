// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/ring_blocks.hpp"

#include "attention/closed_forms/visibility.hpp"

namespace ringspan::attention {
namespace {

/// Hops that the block of `owner` makes until the last rank that sees it has it.
int journey(const Visibility& visibility, int owner) {
  const int ranks = visibility.ranks();
  int hops = ranks - 1;
  while (hops > 0 && !visibility.sees((owner + hops) % ranks, owner)) --hops;
  return hops;
}

}  // namespace

std::vector<RingBlock> ring_blocks(const Problem& problem, LayoutKind layout, int ranks) {
  const Visibility visibility(problem, layout, ranks);
  std::vector<RingBlock> blocks;
  for (int owner = 0; owner < ranks; ++owner) {
    blocks.push_back({visibility.tokens(owner), journey(visibility, owner)});
  }
  return blocks;
}

}  // namespace ringspan::attention
