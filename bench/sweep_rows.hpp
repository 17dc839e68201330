// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/ask/sweep_options.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/hosts.hpp"
#include "bench/rows/csv_reporter.hpp"
#include "bench/rows/held_points.hpp"
#include "bench/rows/progress.hpp"
#include "bench/run/measure.hpp"

namespace ringspan::bench {

/// What running a point came to: one of the two.
struct Outcome {
  std::optional<Measurement> measurement = {};
  std::exception_ptr failure = {};
};

/// What a sweep has measured and has yet to measure: says which point is next, and makes rows of
/// outcomes, for the CSV and for the person who waits. Runs nothing itself.
class SweepRows {
 public:
  /// Throws invalid_argument if the CSV cannot be written or continued.
  SweepRows(const SweepOptions& options, const std::vector<Point>& points, const Hosts& hosts);

  /// The next of `points` to be run; none: all have their rows.
  std::optional<std::size_t> next();

  /// What became of that point.
  void record(const Outcome& outcome);

  /// The exit status, of all points or after an interruption. finish() throws invalid_argument if
  /// every point was illegal.
  int finish();
  int interrupt();

 private:
  void notes();
  void note_unchecked(const Measurement& measurement);
  void note_costs(const ProbedCosts& probed);
  const comm::Cluster& cluster(const Point& point) const;
  Row empty_row(const Point& point) const;
  std::vector<Cells> unmeasured() const;
  Row judged(const Point& point, const Measurement& measurement);
  std::string judged_speed(const Point& point, const Result& result);
  Row refused(const Point& point, const std::exception_ptr& reason);
  void add(Row row);
  void report();

  const SweepOptions& options_;
  const std::vector<Point>& points_;
  const Hosts& hosts_;
  const std::optional<GpuMachine> gpu_;
  const std::unique_ptr<CsvReporter> reporter_;  // before the rows that are read: it holds the lock
  std::vector<Cells> finished_;
  const HeldPoints held_;
  std::size_t at_ = 0;  // of those missing
  std::vector<Row> waiting_;
  Progress progress_;
  double peak_gflops_ = 0;  // of one core
  bool legal_;              // some point was not refused
  bool failed_ = false;
  bool noted_ = false, noted_unchecked_ = false;
  std::set<std::string> noted_costs_;
  std::string refusal_;  // the first
};

}  // namespace ringspan::bench
