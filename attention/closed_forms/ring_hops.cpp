// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/ring_hops.hpp"

namespace ringspan::attention {

RingHops::RingHops(const Problem& problem, LayoutKind layout, int ranks)
    : problem_(problem),
      shards_(shards(layout, problem.sequence, ranks)),
      blocks_(ring_blocks(problem, layout, ranks, ranks)) {}

std::vector<Tile> RingHops::seen(int rank, int owner) const {
  return visible_tiles(shards_[rank], shards_[owner], problem_.sequence, problem_.mask);
}

}  // namespace ringspan::attention
