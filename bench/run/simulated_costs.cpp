// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulated_costs.hpp"

#include <algorithm>
#include <map>

#include "attention/schedules/usp_position.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/simulate.hpp"

namespace ringspan::bench {
namespace {

/// The nodes of the ranks of each group.
std::vector<std::vector<int>> exchanging(const Point& point,
                                         const std::vector<comm::Place>& places) {
  std::vector<std::vector<int>> groups(1);
  if (point.schedule != "usp") {
    for (const comm::Place& place : places) groups[0].push_back(place.node);
    return groups;
  }
  const attention::ScheduleOptions how = schedule_options(point);
  const auto positions = attention::usp_positions(how.ulysses_degree, how.placement, places);
  groups.resize(static_cast<std::size_t>(positions.front().ring_degree));
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    groups[static_cast<std::size_t>(positions[rank].ring_rank)].push_back(places[rank].node);
  return groups;
}

}  // namespace

std::vector<ProbedCosts> simulated_costs(const Point& point, const comm::Cluster& cluster) {
  const comm::LaunchOptions launch = simulated_launch(point, {}, cluster);
  comm::World world{comm::places(*launch.cluster, launch.ranks, launch.ranks_per_node)};
  world.cluster = launch.cluster;
  std::vector<ProbedCosts> all;
  for (const std::vector<int>& nodes : exchanging(point, world.places)) {
    std::map<int, int> ranks_on;
    for (const int node : nodes) ++ranks_on[node];
    int largest = 0;
    for (const auto& [node, ranks] : ranks_on) largest = std::max(largest, ranks);
    all.push_back({point.transport, static_cast<int>(nodes.size()),
                   static_cast<int>(ranks_on.size()), largest, *world.costs_among(nodes)});
  }
  return all;
}

}  // namespace ringspan::bench
