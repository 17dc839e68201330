// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/plan/options.hpp"
#include "bench/training/training_config.hpp"

namespace ringspan::bench {

/// How the ranks share a step, as far as its attention depends on it. What buys memory for time,
/// ZeRO and recomputing, is left open.
struct Mix {
  TrainingConfig config;
  std::string_view schedule;  // of attention; "none": every sequence stays on one rank

  bool whole_sequences() const { return config.sequence_parallel() == 1; }
};

/// "data 2, ulysses 8 x ring 4 (usp)": degrees of 1 are left out.
std::string text(const Mix& mix);

/// All legal ones: the degrees of data, tensor, Ulysses and ring multiply to the ranks. Tensor
/// groups stay inside a node, where their messages, which nothing hides, are cheap; a group of
/// ranks that share sequences is whole nodes or an even part of one.
std::vector<Mix> mixes(const PlanOptions& options);

/// The rule that forbids a degree, whatever the others are; empty: there are mixes that have it.
/// Degrees must divide the ranks.
std::string data_refusal(const PlanOptions& options, int data);
std::string tensor_refusal(const PlanOptions& options, int tensor);

std::vector<int> divisors(std::int64_t number);

}  // namespace ringspan::bench
