// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::attention {

/// The order of the ranks in a double ring.
struct RingOrder {
  int inner_ranks;         // of consecutive places; all of them where there is one ring
  std::vector<int> ranks;  // [place]
};

/// Inner rings of `inner_ring` ranks, each within a NUMA domain or node as far as can be, whatever
/// the order and number of ranks on each; where all of that is even and in order, so are the ranks.
/// 0 is the number of ranks on a node; inner rings of one rank are one ring. Throws
/// invalid_argument, listing the legal numbers, unless it divides the ranks.
RingOrder ring_order(int inner_ring, std::span<const comm::Place> places);

/// The same with the ranks as they are, of a ring of usp. Ranks of different rings that share an
/// inner shard stand in the same place of theirs; an order by what each ring's nodes are would
/// part them.
RingOrder usp_ring_order(int inner_ring, std::span<const comm::Place> places);

}  // namespace ringspan::attention
