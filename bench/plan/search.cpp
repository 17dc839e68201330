// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/search.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "bench/interrupt.hpp"
#include "bench/plan/attention_estimate.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::ptrdiff_t kBestFew = 5;        // of which all are simulated
constexpr std::size_t kMostSimulations = 32;  // bounds the time that a plan takes
constexpr double kWorthwhile = 0.999;         // of the time: what a higher stage has to gain

/// ZeRO stages and recomputing, the simplest first. Flash attention computes again what selective
/// recomputing would, so that is no choice.
Candidate best_variant(const PlanOptions& options, const Mix& mix, const AttentionCost& attention) {
  Candidate best;
  bool first = true;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    for (const int stage : {0, 1, 2, 3}) {
      if (stage > 0 && mix.config.replicas() == 1) continue;
      Candidate variant{mix, attention, {}};
      variant.mix.config.recompute = recompute;
      variant.mix.config.zero_stage = stage;
      variant.step = training_step(options.model, options.cluster, variant.mix.config, attention);
      variant.fits = variant.memory() <= options.memory_limit;
      const bool better = first || (variant.fits && !best.fits) ||
                          (variant.fits == best.fits &&
                           (variant.fits ? variant.seconds() < kWorthwhile * best.seconds()
                                         : variant.memory() < best.memory()));
      if (better) best = variant;
      first = false;
    }
  }
  return best;
}

bool before(const Candidate& a, const Candidate& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.seconds() < b.seconds() : a.memory() < b.memory();
}

/// All that tells candidates apart but micro-batches.
auto degrees(const Candidate& candidate) {
  const TrainingConfig& config = candidate.mix.config;
  return std::tuple(config.data, config.tensor, config.ulysses, config.ring, config.ring_inner,
                    candidate.mix.schedule);
}

class Search {
 public:
  explicit Search(const PlanOptions& options) : options_(options), attention_(options) {}

  SearchResult run() {
    bound_all();
    std::stable_sort(found_.begin(), found_.end(), before);
    for (Candidate& candidate : found_) {
      if (!candidate.fits || cannot_matter(candidate)) break;
      try {
        improve(candidate);
      } catch (const Error& error) {
        const bool late = error.kind() == ErrorKind::aborted && !interrupted();
        if (!late && error.kind() != ErrorKind::invalid_argument) throw;
        // Its lower bound stands.
        unsimulated_ = concat(text(candidate.mix), " was not simulated: ", error.what());
        if (late) break;
      }
    }
    const std::size_t considered = found_.size();
    std::stable_sort(found_.begin(), found_.end(), ranked_before);
    drop_other_micro_batches();
    return {std::move(found_), considered, attention_.simulations(), std::move(unsimulated_)};
  }

 private:
  void bound_all() {
    const std::vector<Mix> all = mixes(options_);
    try {
      for (const Mix& mix : all) {
        found_.push_back(best_variant(options_, mix, attention_.at_best(mix)));
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::aborted || interrupted()) throw;
      throw Error(ErrorKind::aborted,
                  concat("--time-limit: after ", options_.time_limit, " s only ", found_.size(),
                         " of ", all.size(),
                         " mixes have a lower bound, and without all of them none can be called "
                         "the best; give more seconds, or fewer --ranks"));
    }
  }

  /// A closer bound, then a simulation if that still matters.
  void improve(Candidate& candidate) {
    candidate = best_variant(options_, candidate.mix, attention_.at_best_in_ring(candidate.mix));
    if (!candidate.fits || cannot_matter(candidate)) return;
    const double bound = candidate.seconds();
    candidate = best_variant(options_, candidate.mix, attention_.simulated(candidate.mix));
    candidate.simulated = true;
    candidate.bound_seconds = bound;
    if (candidate.fits) note_time(candidate);
  }

  bool cannot_matter(const Candidate& candidate) const {
    if (attention_.simulations() >= kMostSimulations) return true;
    const auto shorter = std::count_if(times_.begin(), times_.end(), [&](const auto& known) {
      return known.second < candidate.seconds();
    });
    return shorter >= kBestFew;
  }

  void note_time(const Candidate& candidate) {
    double& time = times_.emplace(degrees(candidate), candidate.seconds()).first->second;
    time = std::min(time, candidate.seconds());
  }

  /// A lower bound says too little to stand above what is known.
  static bool ranked_before(const Candidate& a, const Candidate& b) {
    if (a.fits && b.fits && a.simulated != b.simulated) return a.simulated;
    return before(a, b);
  }

  void drop_other_micro_batches() {
    std::vector<Candidate> kept;
    for (Candidate& candidate : found_) {
      const bool known = std::any_of(kept.begin(), kept.end(), [&](const Candidate& better) {
        return degrees(better) == degrees(candidate);
      });
      if (!known) kept.push_back(std::move(candidate));
    }
    found_ = std::move(kept);
  }

  const PlanOptions& options_;
  AttentionEstimate attention_;
  std::vector<Candidate> found_;
  std::map<decltype(degrees({})), double> times_;  // of what was simulated and fits
  std::string unsimulated_;
};

}  // namespace

SearchResult search(const PlanOptions& options) { return Search(options).run(); }

}  // namespace ringspan::bench
