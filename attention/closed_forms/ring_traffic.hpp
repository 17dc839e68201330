// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/closed_forms/ring_blocks.hpp"

namespace ringspan::attention {

/// What a ring of so many ranks must send for a problem, in units of rows. All rings of usp are
/// alike but for their heads, which therefore are said when bytes are wanted.
class RingTraffic {
 public:
  /// Inner rings are of `inner_ranks` consecutive ranks, or one ring.
  RingTraffic(const Problem& problem, LayoutKind layout, int ranks, int inner_ranks,
              BackwardForm backward);

  std::int64_t tokens(int rank) const { return kv_[rank].tokens; }

  /// Of the rank of `ring`, in the order of the ring.
  Traffic forward(const Shape& shape, const Group& ring) const;
  Traffic backward(const Shape& shape, const Group& ring) const;

 private:
  Traffic pass(const std::vector<RingBlock>& blocks, std::int64_t block_row,
               std::int64_t gradient_row, const Group& ring) const;

  int inner_ranks_;
  BackwardForm backward_;
  std::vector<RingBlock> kv_, q_;  // [owner]; q only if it might travel
};

/// The same for a bidirectional ring.
class BidirectionalTraffic {
 public:
  BidirectionalTraffic(const Problem& problem, LayoutKind layout, int ranks);

  Traffic forward(const Shape& shape, const Group& ring) const;
  Traffic backward(const Shape& shape, const Group& ring) const;

 private:
  Traffic pass(std::int64_t block_row, std::int64_t gradient_row, const Group& ring) const;

  struct Block {
    std::int64_t tokens;
    int front, back;  // hops to the ranks behind, and to those before
  };
  std::vector<Block> blocks_;  // [owner]
};

}  // namespace ringspan::attention
