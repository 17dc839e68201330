// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "attention/closed_forms.hpp"
#include "bench/commit.hpp"
#include "bench/fma_peak.hpp"
#include "bench/interrupt.hpp"
#include "bench/judge/judgement.hpp"
#include "bench/machine.hpp"
#include "bench/rows/csv_reader.hpp"
#include "bench/rows/csv_reporter.hpp"
#include "bench/rows/efficiency.hpp"
#include "bench/rows/progress.hpp"
#include "bench/run/bytes_needed.hpp"
#include "bench/run/measure.hpp"
#include "bench/run/rank_run.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

std::optional<double> flops(const Point& point, const MeasureOptions& options) {
  if (point.kernel == "null") return std::nullopt;
  const attention::Problem asked = problem(point, options);
  return (point.has_forward() ? attention::forward_flops(asked) : 0) +
         (point.has_backward() ? attention::backward_flops(asked) : 0);
}

/// Asked before anything whose own size grows with the point's, as sampled documents do.
void require_memory(const Point& point, std::int64_t available) {
  const double bytes = bytes_needed(point);
  RINGSPAN_REQUIRE(bytes <= static_cast<double>(available), point.schedule, " takes ",
                   std::ceil(bytes / (1 << 30)), " GiB for inputs, outputs and buffers on ",
                   point.ranks, point.ranks == 1 ? " rank" : " ranks", "; this machine has ",
                   available >> 30);
}

/// The reason in one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Refuses to open what is no file of rows, or not one to be continued.
std::unique_ptr<CsvReporter> open_csv(const SweepOptions& options) {
  if (options.csv.empty()) return nullptr;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(options.csv, error);
  RINGSPAN_REQUIRE(status.type() != std::filesystem::file_type::none, "--csv: cannot write ",
                   options.csv, ": ", error.message());
  if (std::filesystem::exists(status)) {
    RINGSPAN_REQUIRE(std::filesystem::is_regular_file(status), "--csv: ", options.csv,
                     " is not a regular file");
    RINGSPAN_REQUIRE(options.resume, "--csv: ", options.csv,
                     " exists; continue it with --resume, or give another name");
  }
  return std::make_unique<CsvReporter>(options.csv);
}

std::vector<Point> missing_points(const SweepOptions& options, const std::vector<Cells>& rows) {
  std::set<std::string> done;
  for (const Cells& row : rows) done.insert(key(row));
  std::vector<Point> missing = points(options.axes);
  std::erase_if(missing, [&](const Point& point) { return done.count(key(point)) > 0; });
  return missing;
}

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options)
      : options_(options),
        reporter_(open_csv(options)),
        finished_(reporter_ ? read_csv(options.csv) : std::vector<Cells>()),
        points_(missing_points(options, finished_)),
        progress_(points_.size()),
        legal_(!finished_.empty()) {}

  int run() {
    for (const Point& point : points_) {
      if (interrupted()) break;
      progress_.begin(point);
      std::optional<Row> row = measured(point);
      if (!row) break;  // interrupted
      waiting_.push_back(std::move(*row));
      if (legal_) report();
    }
    return finish();
  }

 private:
  /// What a reader of the numbers must know; once, on standard error.
  void notes() {
    noted_ = true;
    const auto any = [this](const auto& predicate) {
      return std::any_of(points_.begin(), points_.end(), predicate);
    };
    if (any([](const Point& p) { return p.transport == "threads" && p.hop == "copy"; })) {
      spdlog::info(
          "on threads with copies nothing is hidden by nature: no copy engine moves bytes "
          "while the cores compute");
    }
    if (any([this](const Point& p) { return p.ranks > machine_.cores; })) {
      spdlog::info(
          "some points have more ranks than the {} cores: they are correct, but their "
          "times mean little",
          machine_.cores);
    }
    if (std::getenv("RINGSPAN_DEBUG")) spdlog::info("RINGSPAN_DEBUG is set: it costs time");
  }

  /// What "ok" does not say; once, on standard error.
  void note_unchecked(const Measurement& measurement) {
    if (!measurement.deviation || measurement.sampled_keys > 0) return;
    if (std::exchange(noted_unchecked_, true)) return;
    progress_.clear_line();
    spdlog::info(
        "--check: at some points every key is seen by so many queries that no single key's dk and "
        "dv were compared{}",
        options_.measure.sinks ? "" : "; dv was, summed over all keys of a head");
  }

  /// The row of a point; none if it was interrupted.
  std::optional<Row> measured(const Point& point) {
    Row row{machine_.name(), kCommit, std::string(comm::backend(point.transport).world), point,
            options_.measure.repeats};
    try {
      require_memory(point, machine_.memory_bytes);
      const Measurement measurement = measure(point, options_.measure);
      row.result = result_of(point, measurement, flops(point, options_.measure));
      row.status = judge(measurement);
      if (point.has_backward()) note_unchecked(measurement);
      if (row.status == "ok") row.status = judged_speed(point, *row.result);
      if (row.status == "ok") fill_efficiencies(row, finished_);
      failed_ |= row.status != "ok";
    } catch (const Error& error) {
      if (interrupted()) return std::nullopt;
      row.status = one_line(error.what());
      const bool illegal = error.kind() == ErrorKind::invalid_argument;
      if (illegal && refusal_.empty()) refusal_ = row.status;
      legal_ |= !illegal;
      const bool given_up = error.kind() == ErrorKind::aborted;  // after --point-timeout
      failed_ |= !illegal && !given_up;
    } catch (const std::exception& error) {
      row.status = one_line(error.what());
      legal_ = failed_ = true;
    }
    legal_ |= row.result.has_value();
    return row;
  }

  /// The peak is measured when first needed, and once more before a row is called impossible.
  std::string judged_speed(const Point& point, const Result& result) {
    const auto cores = static_cast<double>(std::min<std::int64_t>(point.ranks, machine_.cores));
    if (peak_gflops_ == 0) peak_gflops_ = fma_peak_gflops(0.1);
    const std::string status = judge_speed(point, result, peak_gflops_ * cores);
    if (status == "ok") return status;
    peak_gflops_ = std::max(peak_gflops_, fma_peak_gflops(0.5));
    return judge_speed(point, result, peak_gflops_ * cores);
  }

  /// Rows are reported as they come; illegal ones wait for the first legal one, because a sweep
  /// without any is bad input and writes nothing.
  void report() {
    progress_.clear_line();
    if (!noted_) notes();
    for (const Row& row : waiting_) {
      progress_.end(row);
      finished_.push_back(cells(row));
      if (reporter_) reporter_->append(finished_.back());
    }
    waiting_.clear();
  }

  int finish() {
    progress_.clear_line();
    if (interrupted()) {
      report();
      spdlog::warn("interrupted; finished rows are kept{}",
                   reporter_ ? ", continue with --resume" : "");
      return kExitInterrupted;
    }
    RINGSPAN_REQUIRE(legal_ || refusal_.empty(), refusal_);
    if (points_.empty()) spdlog::info("{} already holds every point", options_.csv);
    return failed_ ? kExitFailed : kExitOk;
  }

  const SweepOptions& options_;
  const std::unique_ptr<CsvReporter> reporter_;  // before the rows that are read: it holds the lock
  std::vector<Cells> finished_;
  const std::vector<Point> points_;
  std::vector<Row> waiting_;
  Progress progress_;
  const Machine machine_ = this_machine();
  double peak_gflops_ = 0;  // of one core
  bool legal_;              // some point was not refused
  bool failed_ = false;
  bool noted_ = false, noted_unchecked_ = false;
  std::string refusal_;  // the first
};

}  // namespace

int sweep(const SweepOptions& options) {
  Sweep sweep(options);
  catch_interrupt();
  return sweep.run();
}

}  // namespace ringspan::bench
