// SPDX-License-Identifier: Apache-2.0
// On N nodes of L ranks with s bytes per pair, where a message between nodes has latency ax, costs
// ox and bx per byte, one inside a node ai, oi and bi, a copy c per byte, and each post or launch
// of copies p, a rank needs
//   direct        2 p + max(ax, ai) + ((N-1) L ox + (L-1) oi) & max((N-1) L bx, (L-1) bi) s
//   hierarchical  (2 + 4 K) p + ax + ai + (K+1) (L-1) oi + max(X, I) + min(X, I) / K
// in K stages (each packs, posts twice and keeps its own), where & adds, or takes the larger if
// messages cost a rank nothing while their bytes move; X = (N-1) ox & (N-1) L bx s on the network,
// and I = N (L-1) bi s + (N-1) (L+1) c s inside the node: passing on, packing and keeping its own.
// If a stage brings more than one node, its messages are packed and unpacked once more,
// 2 K p + 2 (N-1) (L-1) c s. The network and what is done inside the node overlap but for one
// stage. Direct grows the slowest with s, so that there is one crossover.
#include "comm/all_to_all_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

double direct_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const double far = (nodes - 1) * ranks, near = ranks - 1;
  return 2 * costs.per_operation + std::max(inter.latency, intra.latency) +
         costs.together(far * inter.per_message + near * intra.per_message,
                        std::max(far * inter.per_byte, near * intra.per_byte) * bytes);
}

double hierarchical_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks,
                            double stages) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const bool several = stages < nodes - 1;  // nodes to a stage
  const double repacked = several ? 2 * (nodes - 1) * (ranks - 1) : 0;
  const double network =
      costs.together((nodes - 1) * inter.per_message, (nodes - 1) * ranks * inter.per_byte * bytes);
  const double inside = nodes * (ranks - 1) * intra.per_byte * bytes +
                        ((nodes - 1) * (ranks + 1) + repacked) * costs.copy_per_byte * bytes;
  return (2 + (several ? 6 : 4) * stages) * costs.per_operation + inter.latency + intra.latency +
         (stages + 1) * (ranks - 1) * intra.per_message + std::max(network, inside) +
         std::min(network, inside) / stages;
}

int best_stages(const MessageCosts& costs, double bytes, int nodes, int ranks_per_node) {
  int best = nodes - 1;
  const auto seconds = [&](int stages) {
    return all_to_all_seconds(costs, bytes, nodes, ranks_per_node, stages);
  };
  for (int stages = nodes - 2; stages >= 1; --stages) {
    if (seconds(stages) < seconds(best)) best = stages;
  }
  return best;
}

}  // namespace

double all_to_all_seconds(const MessageCosts& costs, double bytes, int nodes, int ranks_per_node,
                          int stages) {
  return stages == 0 ? direct_seconds(costs, bytes, nodes, ranks_per_node)
                     : hierarchical_seconds(costs, bytes, nodes, ranks_per_node, stages);
}

double all_to_all_crossover(const MessageCosts& costs, int nodes, int ranks_per_node) {
  const auto pays = [&](double bytes) {
    const auto seconds = [&](int stages) {
      return all_to_all_seconds(costs, bytes, nodes, ranks_per_node, stages);
    };
    return seconds(best_stages(costs, bytes, nodes, ranks_per_node)) < seconds(0);
  };
  constexpr double kMost = 0x1p40;  // bytes; above it, what is saved drowns in rounding
  if (nodes == 1 || !pays(0)) return 0;
  if (pays(kMost)) return std::numeric_limits<double>::infinity();
  double below = 0, above = kMost;
  while (true) {
    const double middle = (below + above) / 2;
    if (middle <= below || middle >= above) return above;
    (pays(middle) ? below : above) = middle;
  }
}

AllToAllChoice choose_all_to_all(AllToAllAlgorithm asked, const std::optional<MessageCosts>& costs,
                                 std::int64_t bytes, int nodes, int ranks_per_node) {
  using enum AllToAllAlgorithm;
  const auto stages = [&] {
    return costs ? best_stages(*costs, static_cast<double>(bytes), nodes, ranks_per_node)
                 : nodes - 1;
  };
  if (asked == direct) return {direct, 0, "direct was asked for"};
  if (asked == hierarchical) return {hierarchical, stages(), "hierarchical was asked for"};
  if (nodes == 1) return {direct, 0, "all ranks are on one node"};
  if (ranks_per_node == 1) return {direct, 0, "every rank is on a node of its own"};
  if (!costs) return {direct, 0, "what messages cost here has not been measured"};
  const double crossover = all_to_all_crossover(*costs, nodes, ranks_per_node);
  const bool below = static_cast<double>(bytes) < crossover;
  const std::string reason =
      concat(bytes, " bytes per pair are ", below ? "below" : "not below", " the crossover of ",
             std::round(crossover), " on ", nodes, " nodes of ", ranks_per_node, " ranks");
  if (below) return {hierarchical, stages(), reason};
  return {direct, 0, reason};
}

}  // namespace ringspan::comm
