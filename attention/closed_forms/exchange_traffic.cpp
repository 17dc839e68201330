// SPDX-License-Identifier: Apache-2.0
// A rank of an all-to-all sends, directly, one message to each other rank. Hierarchically it sends
// one to each other node, for all ranks there, to the one of equal index (on a smaller node the
// index wraps around); one to each rank of its own node with what it has for it; and per stage one
// more, with what came through it from the nodes of that stage: those at the stage's distances
// behind, of which a stage has the (N - 1) / K nearest that are left.
#include "attention/closed_forms/exchange_traffic.hpp"

#include <algorithm>

#include "comm/nodes.hpp"
#include "comm/split_evenly.hpp"

namespace ringspan::attention {
namespace {

std::int64_t mean_pair(int size, const PairBytes& bytes) {
  std::int64_t sum = 0, pairs = 0;
  for (int source = 0; source < size; ++source) {
    for (int destination = 0; destination < size; ++destination) {
      if (source == destination) continue;
      sum += bytes(source, destination);
      ++pairs;
    }
  }
  return sum / std::max<std::int64_t>(pairs, 1);
}

/// What `rank` has for `peer`, of its node, from nodes at these distances.
std::int64_t passed_on(const comm::Nodes& nodes, int rank, int peer, Part distances,
                       const PairBytes& bytes) {
  const int here = nodes.node(rank), count = nodes.count();
  std::int64_t sum = 0;
  for (std::int64_t distance = distances.first; distance < distances.first + distances.count;
       ++distance) {
    const int behind = (here + count - 1 - static_cast<int>(distance)) % count;
    for (const int source : nodes.ranks(behind)) {
      if (nodes.counterpart(source, here) == rank) sum += bytes(source, peer);
    }
  }
  return sum;
}

Traffic hierarchical_traffic(const Group& group, const comm::Nodes& nodes, int stages,
                             const PairBytes& bytes) {
  const int rank = group.rank, here = nodes.node(rank);
  Traffic traffic;
  for (int node = 0; node < nodes.count(); ++node) {
    if (node == here) continue;
    std::int64_t sum = 0;
    for (const int destination : nodes.ranks(node)) sum += bytes(rank, destination);
    traffic += group.message(nodes.ranks(node).front(), sum);
  }
  for (const int peer : nodes.ranks(here)) {
    if (peer == rank) continue;
    traffic += group.message(peer, bytes(rank, peer));
    for (int stage = 0; stage < stages; ++stage) {
      const Part distances = split_evenly(nodes.count() - 1, stages, stage);
      traffic += group.message(peer, passed_on(nodes, rank, peer, distances, bytes));
    }
  }
  return traffic;
}

}  // namespace

Traffic exchange_traffic(const Group& group, comm::AllToAllAlgorithm algorithm,
                         const PairBytes& bytes) {
  Traffic traffic;
  if (algorithm != comm::AllToAllAlgorithm::direct) {
    const comm::Nodes nodes(group.nodes);
    const comm::AllToAllChoice choice = choose_all_to_all(
        algorithm, group.costs, mean_pair(group.size(), bytes), nodes.count(), nodes.largest());
    if (choice.algorithm == comm::AllToAllAlgorithm::hierarchical) {
      return hierarchical_traffic(group, nodes, choice.stages, bytes);
    }
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank) traffic += group.message(peer, bytes(group.rank, peer));
  }
  return traffic;
}

}  // namespace ringspan::attention
