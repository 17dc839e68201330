// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_levels.hpp"

#include <algorithm>
#include <vector>

namespace ringspan::attention {

RingLevels two_rings(const comm::Communicator& comm, const RingOrder& order) {
  const bool in_order = std::is_sorted(order.ranks.begin(), order.ranks.end());
  const auto at = std::find(order.ranks.begin(), order.ranks.end(), comm.rank());
  const comm::Communicator all =
      in_order ? comm : comm.split(0, static_cast<int>(at - order.ranks.begin()));
  if (order.inner_ranks == comm.size()) return one_ring(all);
  const comm::Communicator inner = all.split(all.rank() / order.inner_ranks, all.rank());
  return {all, inner, all.split(all.rank() % order.inner_ranks, all.rank())};
}

}  // namespace ringspan::attention
