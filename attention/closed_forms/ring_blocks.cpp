// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/ring_blocks.hpp"

#include <algorithm>

#include "attention/closed_forms/visibility.hpp"

namespace ringspan::attention {

std::vector<RingBlock> ring_blocks(const Problem& problem, LayoutKind layout, int ranks,
                                   int inner_ranks, Travelling travelling) {
  const Visibility visibility(problem, layout, ranks);
  const auto needs = [&](int rank, int owner) {
    return travelling == Travelling::kv ? visibility.sees(rank, owner)
                                        : visibility.sees(owner, rank);
  };
  std::vector<RingBlock> blocks;
  for (int owner = 0; owner < ranks; ++owner) {
    RingBlock& block = blocks.emplace_back();
    block.tokens = visibility.tokens(owner);
    const int first = owner % inner_ranks, home = owner - first;  // of its node
    for (int node = ranks - inner_ranks; node >= 0; node -= inner_ranks) {
      int hops = inner_ranks - 1;
      const auto rank = [&] { return (home + node) % ranks + (first + hops) % inner_ranks; };
      while (hops >= 0 && !needs(rank(), owner)) --hops;
      if (hops >= 0 || !block.turns.empty() || node == 0) block.turns.push_back(std::max(hops, 0));
    }
    std::reverse(block.turns.begin(), block.turns.end());
  }
  return blocks;
}

}  // namespace ringspan::attention
