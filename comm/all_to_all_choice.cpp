// SPDX-License-Identifier: Apache-2.0
// On N nodes of L ranks with s bytes per pair, where a message between nodes has latency ax, costs
// ox and bx per byte, one inside a node ai, oi and bi, and a copy c per byte, a rank needs
//   direct        max(ax, ai) + (N-1) L ox + (L-1) oi + max((N-1) L bx, (L-1) bi) s
//   hierarchical  ax + ai + (N-1) ox + (K+1) (L-1) oi + (max(X, I) + min(X, I) / K) s
// in K stages, with X = (N-1) L bx on the network and I = N (L-1) bi + (N-1) (L+1) c inside the
// node: passing on, packing and keeping its own; if a stage brings more than one node, its messages
// are packed and unpacked once more, 2 (N-1) (L-1) c. The network and what is done inside the node
// overlap but for one stage; what a message costs the rank itself never does. All are linear in s
// and direct has the smallest slope, so that there is one crossover for each K.
#include "comm/all_to_all_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

/// A time that grows with the bytes per pair.
struct Line {
  double seconds = 0, per_byte = 0;
};

Line direct_time(const MessageCosts& costs, double nodes, double ranks) {
  const auto& [inter, intra, copy] = costs;
  const double far = (nodes - 1) * ranks, near = ranks - 1;
  return {
      std::max(inter.latency, intra.latency) + far * inter.per_message + near * intra.per_message,
      std::max(far * inter.per_byte, near * intra.per_byte)};
}

Line hierarchical_time(const MessageCosts& costs, double nodes, double ranks, double stages) {
  const auto& [inter, intra, copy] = costs;
  const double repacked = stages < nodes - 1 ? 2 * (nodes - 1) * (ranks - 1) : 0;
  const double network = (nodes - 1) * ranks * inter.per_byte;
  const double inside =
      nodes * (ranks - 1) * intra.per_byte + ((nodes - 1) * (ranks + 1) + repacked) * copy;
  return {inter.latency + intra.latency + (nodes - 1) * inter.per_message +
              (stages + 1) * (ranks - 1) * intra.per_message,
          std::max(network, inside) + std::min(network, inside) / stages};
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
  const Line line = stages == 0 ? direct_time(costs, nodes, ranks_per_node)
                                : hierarchical_time(costs, nodes, ranks_per_node, stages);
  return line.seconds + line.per_byte * bytes;
}

double all_to_all_crossover(const MessageCosts& costs, int nodes, int ranks_per_node) {
  const Line direct = direct_time(costs, nodes, ranks_per_node);
  double crossover = 0;
  for (int stages = 1; stages < nodes; ++stages) {
    const Line line = hierarchical_time(costs, nodes, ranks_per_node, stages);
    const double saved = direct.seconds - line.seconds, spent = line.per_byte - direct.per_byte;
    if (saved <= 0) continue;
    crossover =
        std::max(crossover, spent > 0 ? saved / spent : std::numeric_limits<double>::infinity());
  }
  return crossover;
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
