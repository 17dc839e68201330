// SPDX-License-Identifier: Apache-2.0
#include "bench/run/known_costs.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "bench/run/watchdog.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "comm/nodes.hpp"
#include "comm/probe.hpp"

namespace ringspan::bench {
namespace {

comm::Communicator group_of(const comm::Communicator& world,
                            const std::vector<std::vector<int>>& groups) {
  if (groups.size() == 1) return world;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto own = std::find(groups[i].begin(), groups[i].end(), world.rank());
    if (own != groups[i].end())
      return world.split(static_cast<int>(i), static_cast<int>(own - groups[i].begin()));
  }
  throw Error(ErrorKind::invalid_argument, concat("rank ", world.rank(), " is in no group"));
}

GroupCosts probe_groups(const comm::Communicator& world, std::string_view transport,
                        const std::vector<std::vector<int>>& groups) {
  struct Probed {
    int ranks, nodes, ranks_per_node;
    comm::MessageCosts costs;
  };
  const ProbedCosts own = probe_costs(group_of(world, groups), transport, kProbeSeconds);
  const std::vector<Probed> all =
      comm::all_gather_values(world, Probed{own.ranks, own.nodes, own.ranks_per_node, own.costs});
  GroupCosts costs{own.costs, {}};
  std::set<std::pair<int, int>> known;
  for (const std::vector<int>& group : groups) {
    const auto& [ranks, nodes, ranks_per_node, measured] = all[group.front()];
    if (known.emplace(nodes, ranks_per_node).second)
      costs.probed.push_back({std::string(transport), ranks, nodes, ranks_per_node, measured,
                              static_cast<int>(groups.size())});
  }
  return costs;
}

}  // namespace

ProbedCosts probe_costs(const comm::Communicator& world, std::string_view transport,
                        double seconds) {
  const comm::Nodes nodes(world);
  return {std::string(transport), world.size(), nodes.count(), nodes.largest(),
          comm::probe(world, seconds)};
}

const GroupCosts& KnownCosts::of(const comm::Communicator& world, std::string_view transport,
                                 const std::vector<std::vector<int>>& groups) {
  std::string key(transport);
  for (const std::vector<int>& group : groups) {
    key += " group";
    for (const int rank : group) key += concat(' ', rank, '@', world.place(rank).node);
  }
  // Ranks may know different things if a point has failed before.
  const std::int64_t mine = known_.count(key);
  if (comm::all_reduce(world, mine, comm::Reduction::min) == 0) {
    const Watchdog interrupts(world, std::numeric_limits<double>::infinity());
    known_[key] = probe_groups(world, transport, groups);
  }
  return known_[key];
}

}  // namespace ringspan::bench
