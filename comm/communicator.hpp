// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/message_costs.hpp"
#include "comm/nvtx.hpp"
#include "comm/transport.hpp"

namespace ringspan::comm {

/// Where a rank sits. Ranks of one node reach each other faster than ranks of different nodes.
struct Place {
  int node = 0;
  int numa_domain = 0;  // where the launcher does not bind ranks: 0
  int local_rank = 0;   // within the node
  /// Ranks with equal rail reach each other over one network adapter. Where nodes have one, or
  /// nobody says how many: the local rank.
  int rail = 0;
};

struct Cluster;

/// What holds for all ranks of a world, agreed on at launch.
struct World {
  std::vector<Place> places;                    // [world rank]
  bool lends = false;                           // hops inside one address space go by reference
  double deadline = 60.0;                       // seconds an awaited peer may make no progress
  std::optional<MessageCosts> costs = {};       // measured, or known to the caller
  std::shared_ptr<const Cluster> cluster = {};  // where that is described

  /// What algorithms are chosen by in a group whose ranks are on these nodes: the costs, or else
  /// what the cluster tells, which depends on the group.
  std::optional<MessageCosts> costs_among(std::span<const int> nodes) const;
};

/// This rank's view of a group of ranks. Cheap to copy; copies share one channel.
class Communicator {
 public:
  /// The group of all ranks; what a launcher hands to each of them.
  Communicator(std::shared_ptr<Transport> transport, std::shared_ptr<const World> world);

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  int next() const { return (rank() + 1) % size(); }
  int prev() const { return (rank() + size() - 1) % size(); }

  /// The number in the world of a rank of this group.
  int world_rank(int rank) const { return members_[rank]; }
  const Place& place(int rank) const { return world_->places[members_[rank]]; }
  const World& world() const { return *world_; }
  bool lends() const { return world_->lends; }
  double deadline() const { return world_->deadline; }
  /// See World::costs_among.
  std::optional<MessageCosts> costs() const;

  Device& device() const { return transport_->device(); }
  Traffic traffic() const { return transport_->traffic(); }

  /// See Transport::post. Peers are ranks of this group.
  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) const {
    const NvtxRange range(operation);
    return transport_->post(operation, sends, recvs);
  }
  void reclaim(const Buffer& buffer) const { transport_->reclaim(buffer); }
  void abort(const Error& cause) const { transport_->abort(cause); }

  /// Collective over this group: ranks with equal color (>= 0) form a new group, ordered by key,
  /// then by their rank here.
  Communicator split(int color, int key) const;

  /// The same group, which knows what messages cost: every rank is told the same. Groups split from
  /// it know it too.
  Communicator knowing(const MessageCosts& costs) const;

  /// The same group over another transport that forwards to this one (see ForwardingTransport): how
  /// a caller observes or filters what a schedule sends.
  Communicator through(std::shared_ptr<Transport> transport) const;
  const std::shared_ptr<Transport>& transport() const { return transport_; }

 private:
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<const World> world_;
  std::vector<int> members_;  // world ranks, [rank of this group]
};

}  // namespace ringspan::comm
