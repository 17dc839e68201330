// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/hosts.hpp"
#include "bench/interrupt.hpp"
#include "bench/run/measure.hpp"
#include "bench/run/simulation_process.hpp"
#include "bench/sweep_rows.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Between points all processes come together within moments: whoever is late is gone.
Processes as_patient_as(const SweepOptions& options, const Processes& processes) {
  constexpr double kLeast = 1.0;  // seconds
  const std::optional<double> deadline = options.measure.deadline;
  return deadline ? processes.with_deadline(std::max(*deadline, kLeast)) : processes;
}

/// A sweep as each process goes through it: the first one has the rows and says which point is
/// next, all of them run it.
class Sweep {
 public:
  Sweep(const SweepOptions& options, const Processes& processes)
      : options_(options),
        processes_(as_patient_as(options, processes)),
        hosts_(processes_),
        points_(points(options.axes, hosts_.nodes())) {}

  int run() {
    try {
      while (const std::optional<std::size_t> next = agree()) outcome_ = measured(points_[*next]);
    } catch (const Error& error) {
      if (!rows_ || !lost(error)) throw;
      record();
      throw Error(error.kind(), concat(error.what(), "; the sweep ends, finished rows are kept"),
                  error.where());
    }
    if (!rows_) return kExitOk;
    return stopped_ ? rows_->interrupt() : rows_->finish();
  }

 private:
  /// Where all processes go on; none: the sweep is over.
  std::optional<std::size_t> agree() {
    stopped_ = processes_.any(interrupted());
    const std::string next = processes_.told_by_first([this] {
      if (!rows_) rows_.emplace(options_, points_, hosts_);
      record();
      const auto point = stopped_ ? std::nullopt : rows_->next();
      return point ? std::to_string(*point) : "";
    });
    if (next.empty()) return std::nullopt;
    return std::stoul(next);
  }

  /// What came of a point, for the first process.
  Outcome measured(const Point& point) {
    Outcome outcome;
    const auto run = [&] {
      try {
        outcome.measurement =
            point.simulated()
                ? simulate_apart(point, options_.measure, options_.axes.clusters.at(point.cluster))
                : measure(point, options_.measure, known_costs_);
      } catch (...) {
        outcome.failure = std::current_exception();
      }
    };
    if (comm::ranks_are_processes(comm::backend(point.transport))) {
      run();
    } else {
      processes_.in_first(run);
    }
    return outcome;
  }

  void record() {
    const bool cut_short = stopped_ && outcome_ && outcome_->failure;
    if (outcome_ && !cut_short) rows_->record(*outcome_);
    outcome_.reset();
  }

  const SweepOptions& options_;
  const Processes processes_;
  const Hosts hosts_;
  const std::vector<Point> points_;
  KnownCosts known_costs_;
  std::optional<SweepRows> rows_;  // of the first process
  std::optional<Outcome> outcome_;
  bool stopped_ = false;  // some process was interrupted
};

}  // namespace

int sweep(const SweepOptions& options, const Processes& processes) {
  Sweep sweep(options, processes);
  catch_interrupt();
  return sweep.run();
}

}  // namespace ringspan::bench
