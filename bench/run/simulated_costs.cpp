// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulated_costs.hpp"

#include <algorithm>
#include <map>

#include "bench/run/exchange_groups.hpp"
#include "bench/run/simulate.hpp"
#include "comm/nodes.hpp"

namespace ringspan::bench {

std::vector<ProbedCosts> simulated_costs(const Point& point, const comm::Cluster& cluster) {
  const comm::LaunchOptions launch = simulated_launch(point, {}, cluster);
  comm::World world{comm::places(*launch.cluster, launch.ranks, launch.ranks_per_node)};
  world.cluster = launch.cluster;
  std::vector<ProbedCosts> all;
  for (const std::vector<int>& group : exchange_groups(point, world.places)) {
    std::vector<int> nodes;
    for (const int rank : group) nodes.push_back(world.places[rank].node);
    const comm::Nodes by_node{std::span<const int>(nodes)};
    all.push_back({point.transport, static_cast<int>(group.size()), by_node.count(),
                   by_node.largest(), *world.costs_among(nodes)});
  }
  return all;
}

}  // namespace ringspan::bench
