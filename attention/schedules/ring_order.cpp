// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_order.hpp"

#include "attention/schedules/degree.hpp"
#include "attention/schedules/usp_position.hpp"

namespace ringspan::attention {

// The inner ranks stand as those of usp's inner dimension do.
RingOrder ring_order(int inner_ring, std::span<const comm::Place> places) {
  const int ranks = static_cast<int>(places.size());
  const int asked = degree("double_ring: an inner_ring", inner_ring, places, "ranks of its ring");
  const int inner_ranks = asked == 1 ? ranks : asked;
  RingOrder order{inner_ranks, std::vector<int>(ranks)};
  const auto positions = usp_positions(inner_ranks, Placement::ulysses_inner, places);
  for (int rank = 0; rank < ranks; ++rank) {
    order.ranks[positions[rank].ring_rank * inner_ranks + positions[rank].ulysses_rank] = rank;
  }
  return order;
}

}  // namespace ringspan::attention
