// SPDX-License-Identifier: Apache-2.0
// On N nodes of L ranks with s bytes per pair, where a message of m bytes between nodes has latency
// ax, costs ox(m) and bx per byte, one inside a node ai, oi(m) and bi, a copy c per byte, and each
// post or launch of copies p, a rank needs
//   direct        2 p + max(ax, ai) + ((N-1) L ox(s) + (L-1) oi(s)) & max((N-1) L bx, (L-1) bi) s
//   hierarchical  4 K p + ax + ai + (L-1) (oi(s) + K oi((N-1) s / K)) + max(X, I)
//                 + min(X, I) / K
// in K stages (each packs, posts twice and takes out what is for this rank), where & adds, or takes
// the larger if messages cost a rank nothing while their bytes move; then all posts but one also
// pass while messages do, unless they take longer. Long messages have an ax or ai of their own. On
// the network that is
// X = (N-1) ox(L s) & (N-1) L bx s, inside the node I = N (L-1) bi s + (N-1) (L+1) c s: passing on,
// packing and taking out. If a stage brings more than one node, its messages are packed and
// unpacked once more, K p + 2 (N-1) (L-1) c s. The network and what is done inside the node overlap
// but for one stage. Joined, K = N-1 stages are one to the host, 4 p, and nothing overlaps, X + I.
// Direct grows the slowest with s, but its messages are the most: where they
// become long ones, hierarchical may pay once more.
// What this knows nothing of, such as what it costs ranks that share cores to wait twice,
// measurements show: where the group has trials, the ratio of both times is the measured one, whose
// logarithm follows log s between two of them; below the first and beyond the last it is the
// model's, times how much the measured ratio differs from it there. Beyond both the last and where
// direct's messages become long it stays: all times grow with the bytes there, and what the model
// still sees change is less than what it does not know.
#include "comm/all_to_all_choice.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

double direct_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const double far = (nodes - 1) * ranks, near = ranks - 1;
  return costs.posted(
      2, std::max(inter.latency_of(bytes), intra.latency_of(bytes)) +
             costs.together(far * inter.message(bytes) + near * intra.message(bytes),
                            std::max(far * inter.per_byte, near * intra.per_byte) * bytes));
}

double hierarchical_seconds(const MessageCosts& costs, double bytes, double nodes, double ranks,
                            double stages, bool joined) {
  const LinkCosts &inter = costs.inter_node, &intra = costs.intra_node;
  const bool several = stages < nodes - 1;  // nodes to a stage
  const double posted = joined ? 1 : stages;
  const double repacked = several ? 2 * (nodes - 1) * (ranks - 1) : 0;
  const double network = costs.together((nodes - 1) * inter.message(ranks * bytes),
                                        (nodes - 1) * ranks * inter.per_byte * bytes);
  const double inside = nodes * (ranks - 1) * intra.per_byte * bytes +
                        ((nodes - 1) * (ranks + 1) + repacked) * costs.copy_per_byte * bytes;
  const double messages =
      intra.message(bytes) + stages * intra.message((nodes - 1) / stages * bytes);
  const double latencies =
      inter.latency_of(ranks * bytes) + intra.latency_of((nodes - 1) / stages * bytes);
  return costs.posted((several ? 5 : 4) * posted, latencies + (ranks - 1) * messages +
                                                      std::max(network, inside) +
                                                      std::min(network, inside) / posted);
}

AllToAllChoice best_hierarchical(const MessageCosts& costs, double bytes, int nodes,
                                 int ranks_per_node) {
  AllToAllChoice best = {AllToAllAlgorithm::hierarchical, nodes - 1};
  double least = all_to_all_seconds(costs, bytes, nodes, ranks_per_node, nodes - 1);
  const auto consider = [&](int stages, bool joined) {
    const double seconds = all_to_all_seconds(costs, bytes, nodes, ranks_per_node, stages, joined);
    if (seconds >= least) return;
    least = seconds;
    best.stages = stages;
    best.joined = joined;
  };
  for (int stages = nodes - 2; stages >= 1; --stages) consider(stages, false);
  consider(nodes - 1, true);
  return best;
}

/// Bytes per pair at which a message becomes a longer one, and 0.
std::set<double> message_steps(const MessageCosts& costs, int nodes, int ranks_per_node) {
  std::set<double> steps{0};
  const auto add = [&](const LinkCosts& link, double pairs) {  // in one message
    if (link.per_medium_message > 0) steps.insert(LinkCosts::kMedium / pairs);
    if (link.per_medium_message > 0 || link.per_long_message > 0 || link.long_latency > 0)
      steps.insert(link.long_from / pairs);
  };
  add(costs.inter_node, 1);
  add(costs.inter_node, ranks_per_node);
  add(costs.intra_node, 1);
  for (int stages = 1; stages < nodes; ++stages) add(costs.intra_node, (nodes - 1.0) / stages);
  return steps;
}

/// Which of the two is the faster: the model, corrected by trials of such a group.
class Comparison {
 public:
  Comparison(const MessageCosts& costs, int nodes, int ranks_per_node)
      : costs_(costs), nodes_(nodes), ranks_per_node_(ranks_per_node) {
    const AllToAllTrials& trials = costs.trials;
    if (trials.nodes != nodes || trials.ranks_per_node != ranks_per_node) return;
    for (const auto& [bytes, direct, hierarchical] : trials.all())
      measured_[bytes] = hierarchical / direct;
  }

  bool hierarchical_pays(double bytes) const { return ratio(bytes) < 1; }
  AllToAllChoice best(double bytes) const {
    return best_hierarchical(costs_, bytes, nodes_, ranks_per_node_);
  }
  bool measured() const { return !measured_.empty(); }

  /// Bytes per pair at which something begins: 0, longer messages, and trials. Between two of them
  /// the faster one changes once at most; beyond trials that differ from the model, seldom more
  /// often, which the ranges then do not show.
  std::set<double> steps() const {
    std::set<double> steps = message_steps(costs_, nodes_, ranks_per_node_);
    for (const auto& [bytes, ratio] : measured_) steps.insert(bytes);
    return steps;
  }

 private:
  double seconds(double bytes, const AllToAllChoice& choice) const {
    return all_to_all_seconds(costs_, bytes, nodes_, ranks_per_node_, choice.stages, choice.joined);
  }

  double modelled(double bytes) const { return seconds(bytes, best(bytes)) / seconds(bytes, {}); }

  /// Of hierarchical's seconds to direct's.
  double ratio(double bytes) const {
    if (measured_.empty()) return modelled(bytes);
    const auto above = measured_.upper_bound(bytes);
    if (above == measured_.begin() || above == measured_.end()) {
      const auto& [nearest, there] = above == measured_.begin() ? *above : *std::prev(above);
      const double changes = std::max(nearest, costs_.inter_node.long_from);  // up to here
      return there * modelled(std::min(bytes, changes)) / modelled(nearest);
    }
    const auto& [from, first] = *std::prev(above);
    const auto& [to, last] = *above;
    return first * std::pow(last / first, std::log(bytes / from) / std::log(to / from));
  }

  const MessageCosts& costs_;
  const int nodes_, ranks_per_node_;
  std::map<double, double> measured_;  // ratios, by bytes per pair
};

constexpr double kMost = 0x1p40;  // bytes; above it, what is saved drowns in rounding

/// Where it becomes another than it is at `below`: at `above` at the latest.
template <typename Pays>
double change_of(const Pays& pays, double below, double above) {
  const bool first = pays(below);
  while (true) {
    const double middle = (below + above) / 2;
    if (middle <= below || middle >= above) return above;
    (pays(middle) == first ? below : above) = middle;
  }
}

void append(std::vector<BytesRange>& ranges, const BytesRange& range) {
  if (!ranges.empty() && ranges.back().below == range.from) {
    ranges.back().below = range.below;
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

double all_to_all_seconds(const MessageCosts& costs, double bytes, int nodes, int ranks_per_node,
                          int stages, bool joined) {
  return stages == 0 ? direct_seconds(costs, bytes, nodes, ranks_per_node)
                     : hierarchical_seconds(costs, bytes, nodes, ranks_per_node, stages, joined);
}

std::vector<BytesRange> hierarchical_ranges(const MessageCosts& costs, int nodes,
                                            int ranks_per_node) {
  if (nodes == 1) return {};
  const Comparison comparison(costs, nodes, ranks_per_node);
  const auto pays = [&](double bytes) { return comparison.hierarchical_pays(bytes); };
  std::vector<BytesRange> ranges;
  const std::set<double> steps = comparison.steps();
  for (auto step = steps.begin(); step != steps.end(); ++step) {
    const double end = std::next(step) == steps.end() ? kMost : *std::next(step);
    const bool first = pays(*step), last = pays(std::nextafter(end, 0));
    const double change = first == last ? end : change_of(pays, *step, end);
    if (first) append(ranges, {*step, change});
    if (last && !first) append(ranges, {change, end});
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
  if (asked == direct) return {.reason = "direct was asked for"};
  const auto size = static_cast<double>(bytes);
  if (asked == hierarchical) {
    AllToAllChoice choice = {hierarchical, nodes - 1};
    if (costs) choice = best_hierarchical(*costs, size, nodes, ranks_per_node);
    choice.reason = "hierarchical was asked for";
    return choice;
  }
  if (nodes == 1) return {.reason = "all ranks are on one node"};
  if (ranks_per_node == 1) return {.reason = "every rank is on a node of its own"};
  if (!costs) return {.reason = "what messages cost here has not been measured"};
  const Comparison comparison(*costs, nodes, ranks_per_node);
  AllToAllChoice choice;
  if (comparison.hierarchical_pays(size)) choice = comparison.best(size);
  choice.reason =
      concat(bytes, " bytes per pair; on ", nodes, " nodes of ", ranks_per_node,
             " ranks hierarchical pays ", text(hierarchical_ranges(*costs, nodes, ranks_per_node)),
             comparison.measured() ? ", by trials" : "");
  return choice;
}

}  // namespace ringspan::comm
