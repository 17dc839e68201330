// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.hpp"

#include <optional>
#include <string>
#include <vector>

#include "bench/hosts.hpp"
#include "bench/interrupt.hpp"
#include "bench/run/measure.hpp"
#include "bench/sweep_rows.hpp"

namespace ringspan::bench {
namespace {

/// Runs a point on the processes that it needs. What came of it is for the first of them.
Outcome run(const Point& point, const MeasureOptions& options, const Processes& processes) {
  Outcome outcome;
  const auto run_here = [&] {
    try {
      outcome.measurement = measure(point, options);
    } catch (...) {
      outcome.failure = std::current_exception();
    }
  };
  if (comm::backend(point.transport).process) {
    run_here();
  } else {
    processes.in_first(run_here);
  }
  return outcome;
}

}  // namespace

int sweep(const SweepOptions& options, const Processes& processes) {
  const Hosts hosts(processes);
  const std::vector<Point> all = points(options.axes, hosts.nodes());
  std::optional<SweepRows> rows;  // of the first process
  bool stopped = false;
  // Where the sweep goes on, as text; empty: nowhere.
  const auto decide = [&](const Outcome* outcome) -> std::string {
    if (!rows) rows.emplace(options, all, hosts);
    const bool cut_short = stopped && outcome && outcome->failure;
    if (outcome && !cut_short) rows->record(*outcome);
    if (stopped) return "";
    const std::optional<std::size_t> next = rows->next();
    return next ? std::to_string(*next) : "";
  };

  catch_interrupt();
  std::optional<Outcome> outcome;
  for (;;) {
    stopped = processes.any(interrupted());
    const std::string next =
        processes.told_by_first([&] { return decide(outcome ? &*outcome : nullptr); });
    if (next.empty()) break;
    outcome = run(all[std::stoul(next)], options.measure, processes);
  }
  if (!rows) return kExitOk;
  return stopped ? rows->interrupt() : rows->finish();
}

}  // namespace ringspan::bench
