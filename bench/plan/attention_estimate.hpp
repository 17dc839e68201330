// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "bench/plan/mix.hpp"
#include "bench/plan/options.hpp"
#include "bench/training/attention_cost.hpp"

namespace ringspan::bench {

/// What the attention of a mix costs, of one layer and one micro-batch. What it has answered once
/// it remembers.
class AttentionEstimate {
 public:
  explicit AttentionEstimate(const PlanOptions& options) : options_(options) {}

  /// A lower bound from closed forms. Kernels take what one GPU takes for all, divided by the
  /// ranks; messages go over links that nobody else uses, and rings are hidden where kernels take
  /// longer. Without workspace.
  AttentionCost at_best(const Mix& mix);

  /// In virtual time.
  const AttentionCost& simulated(const Mix& mix);
  std::size_t simulations() const { return simulated_.size(); }

 private:
  using Key = std::pair<int, Point>;  // tensor degree

  AttentionPass bound(const Mix& mix, const std::string& pass);
  AttentionPass bound_of_one_sequence(const Mix& mix, const std::string& pass);
  double seconds_on_one_rank(const std::string& pass);

  const PlanOptions& options_;
  std::map<Key, AttentionPass> bounds_;
  std::map<Key, AttentionCost> simulated_;
  std::map<std::string, double> on_one_rank_;
};

}  // namespace ringspan::bench
