// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "bench/plan/mix.hpp"
#include "bench/plan/options.hpp"
#include "bench/training/attention_cost.hpp"

namespace ringspan::bench {

/// What ranks send in a pass: the most that any sends inside its node, and to others.
struct LeastTraffic {
  struct Sent {
    double in_node = 0, between_nodes = 0;
  };
  Sent exchanged;   // all at once, while nothing else can go on: all-to-alls, gathers
  Sent travelling;  // around a ring, beside kernels
};

/// What the attention of a mix costs, of one layer and one micro-batch. What it has answered once
/// it remembers. From its beginning on it has the time limit of the options; what takes longer
/// throws aborted.
class AttentionEstimate {
 public:
  explicit AttentionEstimate(const PlanOptions& options) : options_(options) {}

  /// A lower bound. Kernels take their share of what one GPU takes for all; messages follow from
  /// closed forms and go over links that nobody else uses, and those of rings are hidden where
  /// kernels take longer. Without workspace.
  AttentionCost at_best(const Mix& mix) { return at_best(mix, 1); }

  /// A closer one: kernels take what they take in a ring without messages.
  AttentionCost at_best_in_ring(const Mix& mix);

  /// In virtual time.
  const AttentionCost& simulated(const Mix& mix);
  std::size_t simulations() const { return simulated_.size(); }

 private:
  using Key = std::pair<int, Point>;  // tensor degree

  AttentionCost at_best(const Mix& mix, int longest_ring);
  AttentionPass bound(const Mix& mix, const std::string& pass, int longest_ring);
  double kernel_seconds(const Mix& mix, const std::string& pass, int longest_ring);
  double seconds_left() const;
  void require_time() const;
  Measurement simulate(const Point& point, const comm::Cluster& share) const;
  const LeastTraffic& traffic(const comm::Cluster& share, const Point& point, int tensor);

  const PlanOptions& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<Point, double> kernels_;      // of all heads
  std::map<Key, LeastTraffic> traffic_;  // of one sequence
  std::map<Key, AttentionCost> simulated_;
};

}  // namespace ringspan::bench
