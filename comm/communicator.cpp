// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/cluster.hpp"
#include "comm/collectives.hpp"

namespace ringspan::comm {

std::optional<MessageCosts> World::costs_among(std::span<const int> nodes) const {
  if (costs || !cluster) return costs;
  const bool one_node =
      std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes.front(); });
  return message_costs(*cluster, {static_cast<int>(std::ssize(nodes)), one_node});
}

Communicator::Communicator(std::shared_ptr<Transport> transport, std::shared_ptr<const World> world)
    : transport_(std::move(transport)), world_(std::move(world)), members_(transport_->size()) {
  std::iota(members_.begin(), members_.end(), 0);
}

std::optional<MessageCosts> Communicator::costs() const {
  std::vector<int> nodes;
  for (int rank = 0; rank < size(); ++rank) nodes.push_back(place(rank).node);
  return world_->costs_among(nodes);
}

Communicator Communicator::split(int color, int key) const {
  RINGSPAN_REQUIRE(color >= 0, "split: color ", color, "; a color is not negative");
  struct Ticket {
    int color, key;
  };
  const std::vector<Ticket> tickets = all_gather_values(*this, Ticket{color, key});
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (tickets[rank].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return tickets[a].key < tickets[b].key; });

  Communicator part(transport_->group(ranks), world_);
  for (int rank = 0; rank < part.size(); ++rank) part.members_[rank] = members_[ranks[rank]];
  return part;
}

Communicator Communicator::knowing(const MessageCosts& costs) const {
  World world = *world_;
  world.costs = costs;
  Communicator same = *this;
  same.world_ = std::make_shared<const World>(std::move(world));
  return same;
}

Communicator Communicator::through(std::shared_ptr<Transport> transport) const {
  RINGSPAN_REQUIRE(transport && transport->rank() == rank() && transport->size() == size(),
                   "through: the transport must be of the same group: rank ", rank(), " of ",
                   size());
  Communicator same = *this;
  same.transport_ = std::move(transport);
  return same;
}

}  // namespace ringspan::comm
