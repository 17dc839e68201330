// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What messages cost among some ranks of a transport.
struct ProbedCosts {
  std::string transport;
  int ranks = 1, nodes = 1, ranks_per_node = 1;  // of the largest node
  comm::MessageCosts costs;
  int groups = 1;  // of so many ranks, all of which sent
};

/// What the all-to-alls of groups that exchange at the same time go by.
struct GroupCosts {
  comm::MessageCosts own;           // among the group of this rank
  std::vector<ProbedCosts> probed;  // of the first group of each number of nodes and ranks
};

/// At most, before an automatic all-to-all. Where ranks share cores and links are slow, turns of
/// trials vary by a third and take a second; elsewhere it is clear sooner which one is the faster.
inline constexpr double kProbeSeconds = 20;

/// Measures them, which takes about so many seconds at most. Collective.
ProbedCosts probe_costs(const comm::Communicator& world, std::string_view transport,
                        double seconds);

/// What this process knows already, so that a sweep measures the same costs once.
class KnownCosts {
 public:
  /// In groups of ranks of the world, one of which every rank is in; all of them measure at the
  /// same time, as they will exchange. Collective; measures unless every rank knows. Ctrl-C ends
  /// that, no other watchdog is needed.
  const GroupCosts& of(const comm::Communicator& world, std::string_view transport,
                       const std::vector<std::vector<int>>& groups);

 private:
  std::map<std::string, GroupCosts> known_;  // by transport and nodes of the groups
};

}  // namespace ringspan::bench
