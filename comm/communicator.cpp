// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/devices/host.hpp"

namespace ringspan::comm {
namespace {

struct Ticket {
  int color, key;
};

// Every rank's ticket, in rank order.
std::vector<Ticket> exchange(const Communicator& comm, Ticket own) {
  constexpr std::int64_t bytes = sizeof(Ticket);
  const Buffer all = make_host_device()->allocate(comm.size() * bytes);
  std::memcpy(all.data() + comm.rank() * bytes, &own, bytes);
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    sends.push_back({peer, slice(all, comm.rank() * bytes, bytes)});
    recvs.push_back({peer, slice(all, peer * bytes, bytes)});
  }
  comm.post("split", sends, recvs).wait();
  std::vector<Ticket> tickets(comm.size());
  std::memcpy(tickets.data(), all.data(), comm.size() * bytes);
  return tickets;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Transport> transport, std::shared_ptr<const World> world)
    : transport_(std::move(transport)), world_(std::move(world)), members_(transport_->size()) {
  for (int rank = 0; rank < size(); ++rank) members_[rank] = rank;
}

Communicator Communicator::split(int color, int key) const {
  RINGSPAN_REQUIRE(color >= 0, "split: color ", color, "; a color is not negative");
  const std::vector<Ticket> tickets = exchange(*this, {color, key});
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (tickets[rank].color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return tickets[a].key < tickets[b].key; });

  Communicator part(transport_->group(ranks), world_);
  for (int rank = 0; rank < part.size(); ++rank) part.members_[rank] = members_[ranks[rank]];
  return part;
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
