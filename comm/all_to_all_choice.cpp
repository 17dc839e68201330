// SPDX-License-Identifier: Apache-2.0
// On N nodes of L ranks with s bytes per pair, where a message of m bytes between nodes has latency
// ax, costs ox(m) and bx per byte, one inside a node ai, oi(m) and bi, a copy c per byte, and each
// post or launch of copies p, a rank needs
//   direct        2 p + max(ax, ai) + ((N-1) L ox(s) + (L-1) oi(s)) & max((N-1) L bx, (L-1) bi) s
//   hierarchical  4 K p + ax + ai + (L-1) (oi(s) + K oi((N-1) s / K)) + max(X, I)
//                 + min(X, I) / K
// in K stages (each packs, posts twice and takes out what is for this rank), where & adds, or takes
// the larger if messages cost a rank nothing while their bytes move. On the network that is
// X = (N-1) ox(L s) & (N-1) L bx s, inside the node I = N (L-1) bi s + (N-1) (L+1) c s: passing on,
// packing and taking out. If a stage brings more than one node, its messages are packed and
// unpacked once more, K p + 2 (N-1) (L-1) c s. The network and what is done inside the node overlap
// but for one stage. Direct grows the slowest with s, but its messages are the most: where they
// become long ones, hierarchical may pay once more.
#include "comm/all_to_all_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

double direct_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const double far = (nodes - 1) * ranks, near = ranks - 1;
  return 2 * costs.per_operation + std::max(inter.latency, intra.latency) +
         costs.together(far * inter.message(bytes) + near * intra.message(bytes),
                        std::max(far * inter.per_byte, near * intra.per_byte) * bytes);
}

double hierarchical_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks,
                            double stages) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const bool several = stages < nodes - 1;  // nodes to a stage
  const double repacked = several ? 2 * (nodes - 1) * (ranks - 1) : 0;
  const double network = costs.together((nodes - 1) * inter.message(ranks * bytes),
                                        (nodes - 1) * ranks * inter.per_byte * bytes);
  const double inside = nodes * (ranks - 1) * intra.per_byte * bytes +
                        ((nodes - 1) * (ranks + 1) + repacked) * costs.copy_per_byte * bytes;
  const double messages =
      intra.message(bytes) + stages * intra.message((nodes - 1) / stages * bytes);
  return (several ? 5 : 4) * stages * costs.per_operation + inter.latency + intra.latency +
         (ranks - 1) * messages + std::max(network, inside) + std::min(network, inside) / stages;
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

constexpr double kMost = 0x1p40;  // bytes; above it, what is saved drowns in rounding

/// Bytes per pair at which a message becomes a longer one, and 0.
std::set<double> message_steps(const MessageCosts& costs, int nodes, int ranks_per_node) {
  std::set<double> steps{0};
  const auto add = [&](const LinkCosts& link, double pairs) {  // in one message
    if (link.per_medium_message == 0 && link.per_long_message == 0) return;
    steps.insert({LinkCosts::kMedium / pairs, LinkCosts::kLong / pairs});
  };
  add(costs.inter_node, 1);
  add(costs.inter_node, ranks_per_node);
  add(costs.intra_node, 1);
  for (int stages = 1; stages < nodes; ++stages) add(costs.intra_node, (nodes - 1.0) / stages);
  return steps;
}

/// Where it ceases to pay, or `above`, between which there is no step.
template <typename Pays>
double end_of(const Pays& pays, double below, double above) {
  if (pays(std::nextafter(above, 0))) return above;
  while (true) {
    const double middle = (below + above) / 2;
    if (middle <= below || middle >= above) return above;
    (pays(middle) ? below : above) = middle;
  }
}

}  // namespace

double all_to_all_seconds(const MessageCosts& costs, double bytes, int nodes, int ranks_per_node,
                          int stages) {
  return stages == 0 ? direct_seconds(costs, bytes, nodes, ranks_per_node)
                     : hierarchical_seconds(costs, bytes, nodes, ranks_per_node, stages);
}

std::vector<BytesRange> hierarchical_ranges(const MessageCosts& costs, int nodes,
                                            int ranks_per_node) {
  if (nodes == 1) return {};
  const auto pays = [&](double bytes) {
    return all_to_all_seconds(costs, bytes, nodes, ranks_per_node,
                              best_stages(costs, bytes, nodes, ranks_per_node)) <
           all_to_all_seconds(costs, bytes, nodes, ranks_per_node, 0);
  };
  std::vector<BytesRange> ranges;
  const std::set<double> steps = message_steps(costs, nodes, ranks_per_node);
  for (auto step = steps.begin(); step != steps.end(); ++step) {
    if (!pays(*step)) continue;
    const auto next = std::next(step);
    const double below = end_of(pays, *step, next == steps.end() ? kMost : *next);
    if (!ranges.empty() && ranges.back().below == *step) {
      ranges.back().below = below;
    } else {
      ranges.push_back({*step, below});
    }
  }
  if (!ranges.empty() && ranges.back().below == kMost)
    ranges.back().below = std::numeric_limits<double>::infinity();
  return ranges;
}

std::string text(std::span<const BytesRange> ranges) {
  if (ranges.empty()) return "at no size";
  if (ranges[0].from == 0 && std::isinf(ranges[0].below)) return "at every size";
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); };
  std::string text;
  for (const auto& [from, below] : ranges) {
    if (!text.empty()) text += " and ";
    if (from == 0) {
      text += concat("below ", whole(below));
    } else {
      text += concat("from ", whole(from));
      if (std::isfinite(below)) text += concat(" to ", whole(below));
    }
  }
  return text + (std::isinf(ranges.back().below) ? " bytes per pair on" : " bytes per pair");
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
  const auto seconds = [&](int stages) {
    return all_to_all_seconds(*costs, static_cast<double>(bytes), nodes, ranks_per_node, stages);
  };
  AllToAllChoice choice;
  if (seconds(stages()) < seconds(0)) choice = {hierarchical, stages(), {}};
  choice.reason =
      concat(bytes, " bytes per pair; on ", nodes, " nodes of ", ranks_per_node,
             " ranks hierarchical pays ", text(hierarchical_ranges(*costs, nodes, ranks_per_node)));
  return choice;
}

}  // namespace ringspan::comm
