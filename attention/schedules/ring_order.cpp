// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_order.hpp"

#include <numeric>
#include <string_view>

#include "attention/schedules/degree.hpp"
#include "attention/schedules/usp_position.hpp"

namespace ringspan::attention {
namespace {

int inner_ranks(std::string_view what, int inner_ring, std::span<const comm::Place> places) {
  const int asked = degree(what, inner_ring, places, "ranks of its ring");
  return asked == 1 ? static_cast<int>(places.size()) : asked;
}

}  // namespace

// The inner ranks stand as those of usp's inner dimension do.
RingOrder ring_order(int inner_ring, std::span<const comm::Place> places) {
  const int ranks = static_cast<int>(places.size());
  RingOrder order{inner_ranks("double_ring: an inner_ring", inner_ring, places),
                  std::vector<int>(ranks)};
  const auto positions = usp_positions(order.inner_ranks, Placement::ulysses_inner, places);
  for (int rank = 0; rank < ranks; ++rank) {
    order.ranks[positions[rank].ring_rank * order.inner_ranks + positions[rank].ulysses_rank] =
        rank;
  }
  return order;
}

RingOrder usp_ring_order(int inner_ring, std::span<const comm::Place> places) {
  RingOrder order{inner_ranks("usp: an inner_ring", inner_ring, places),
                  std::vector<int>(places.size())};
  std::iota(order.ranks.begin(), order.ranks.end(), 0);
  return order;
}

}  // namespace ringspan::attention
