// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/cluster.hpp"

namespace ringspan::comm::simulated {

/// The links of a cluster, each of one direction, and which of them a message crosses. They depend
/// on how far it goes, so a GPU has a port for each reach: a message takes the way out of a port of
/// its sender and the way into the port of the same reach of its receiver.
class Wiring {
 public:
  struct Link {
    std::string name;
    double bytes_per_second;
  };
  struct Port {
    std::vector<int> out, in;  // links
  };

  explicit Wiring(const Cluster& cluster);

  const std::vector<Link>& links() const { return links_; }
  const std::vector<Port>& ports() const { return ports_; }

  /// Of a message between two GPUs.
  std::pair<int, int> ports(const Place& from, const Place& to) const;

 private:
  enum Reach { in_switch, in_domain, in_node, in_leaf, across_leaves };
  static constexpr int kReaches = 5;
  class Way;

  void add_gpu(int node, int gpu, std::map<std::string, int>& known);
  Reach reach(const Place& from, const Place& to) const;
  int nodes_per_leaf() const;
  int port(const Place& place, Reach reach) const {
    return (place.node * cluster_.gpus_per_node + place.local_rank) * kReaches + reach;
  }

  const Cluster cluster_;
  std::vector<Link> links_;
  std::vector<Port>
      ports_;  // [GPU of the cluster][reach], without links where there is no such way
};

}  // namespace ringspan::comm::simulated
