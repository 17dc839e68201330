// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/plan/mix.hpp"
#include "bench/plan/options.hpp"
#include "bench/training/training_step.hpp"

namespace ringspan::bench {

/// A mix with the ZeRO stage and the recomputing that make it fastest within the memory limit, or
/// if nothing does, those that need least.
struct Candidate {
  Mix mix;
  AttentionCost attention;
  TrainingStep step;
  bool fits = false;
  bool simulated = false;    // otherwise the step is a lower bound: it takes longer, or more memory
  double bound_seconds = 0;  // of the step before it was simulated

  double seconds() const { return step.seconds.total(); }
  double memory() const { return step.memory.total(); }
};

/// What came of a search, best first: those that fit before those that do not, among these what
/// needs least. Mixes that differ in nothing but micro-batches are one candidate.
struct SearchResult {
  std::vector<Candidate> candidates;
  std::size_t considered = 0;   // mixes
  std::size_t simulations = 0;  // of attention, forward and backward
  std::string unsimulated;      // what kept some of those that matter from being simulated

  /// The first fits. A lower bound says that only of what does not.
  bool found() const { return candidates.front().fits && candidates.front().simulated; }
};

/// The best way to spread a step. Every mix has a lower bound; mixes are simulated from the lowest
/// bound on, until what is left cannot be among the best few, or time is up. Throws aborted after
/// an interrupt, or if there is no time even for bounds.
SearchResult search(const PlanOptions& options);

}  // namespace ringspan::bench
