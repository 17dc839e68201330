// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/closed_forms/ring_blocks.hpp"
#include "attention/schedule.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// The shards of a ring, what each rank sees of each, and how far each block therefore travels.
class RingHops {
 public:
  RingHops(const Problem& problem, LayoutKind layout, int ranks);

  int ranks() const { return static_cast<int>(shards_.size()); }
  std::int64_t tokens(int rank) const { return blocks_[rank].tokens; }
  std::vector<Tile> seen(int rank, int owner) const;
  /// Whose block is at `rank` in a step.
  int here(int rank, int step) const { return (rank - step + ranks()) % ranks(); }
  /// Of a block, up to the last rank that sees any of it.
  int hops(int owner) const { return blocks_[owner].hops(); }

 private:
  const Problem& problem_;
  std::vector<Shard> shards_;
  std::vector<RingBlock> blocks_;
};

}  // namespace ringspan::attention
