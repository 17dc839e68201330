// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/ring_place.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// Which tokens of a travelling block and of what stays at a rank meet.
class BlockPairs {
 public:
  BlockPairs(const Problem& problem, LayoutKind layout, int ranks,
             Travelling travelling = Travelling::kv);

  int ranks() const { return static_cast<int>(shards_.size()); }
  std::int64_t tokens(int rank) const { return attention::tokens(shards_[rank]); }

  /// What the queries at `rank` see of the keys of `owner`; where queries travel, those of `owner`
  /// of the keys at `rank`.
  std::vector<Tile> tiles(int rank, int owner) const;
  bool meet(int rank, int owner) const { return !tiles(rank, owner).empty(); }

 private:
  /// Positions first .. last; none unless something is added.
  struct Extent {
    std::int64_t first, last;
    void add(std::int64_t from, std::int64_t to);
    bool meets(const Extent& other) const { return first <= other.last && other.first <= last; }
  };
  /// Where one rank's block is needed.
  struct Block {
    Extent tokens;
    Extent seen_from;  // no query outside of it sees any of the tokens
  };
  Block block(const Shard& shard) const;

  Problem problem_;
  Travelling travelling_;
  std::vector<Shard> shards_;  // [rank]
  std::vector<Block> blocks_;  // [rank]
};

}  // namespace ringspan::attention
