// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep_rows.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "attention/closed_forms.hpp"
#include "bench/commit.hpp"
#include "bench/fma_peak.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/judge/judgement.hpp"
#include "bench/rows/costs_file.hpp"
#include "bench/rows/csv_reader.hpp"
#include "bench/rows/efficiency.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/require_memory.hpp"
#include "bench/run/simulate.hpp"
#include "bench/run/simulated_costs.hpp"
#include "bench/sweep.hpp"

namespace ringspan::bench {
namespace {

std::optional<double> flops(const Point& point, const MeasureOptions& options) {
  if (point.kernel == "null") return std::nullopt;
  const attention::Problem asked = problem(point, options);
  return (point.has_forward() ? attention::forward_flops(asked) : 0) +
         (point.has_backward() ? attention::backward_flops(asked) : 0);
}

/// If any point is for GPUs. Throws not_available if all are and there is none.
std::optional<GpuMachine> first_gpu(const std::vector<Point>& points) {
  const bool wanted = std::any_of(points.begin(), points.end(),
                                  [](const Point& point) { return point.device == "cuda"; });
  const std::optional<GpuMachine> gpu = wanted ? gpu_machine() : std::nullopt;
  const bool others = std::any_of(points.begin(), points.end(),
                                  [](const Point& point) { return point.device != "cuda"; });
  if (!gpu && !others)
    throw Error(ErrorKind::not_available, "cuda: not available: " + why_no_gpu());
  return gpu;
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

}  // namespace

SweepRows::SweepRows(const SweepOptions& options, const std::vector<Point>& points,
                     const Hosts& hosts)
    : options_(options),
      points_(points),
      hosts_(hosts),
      gpu_(first_gpu(points)),
      reporter_(open_csv(options)),
      finished_(reporter_ ? read_csv(options.csv) : std::vector<Cells>()),
      held_(held_points(unmeasured(), finished_)),
      progress_(held_.missing.size(), hosts.nodes().size() == 1),
      legal_(!finished_.empty()) {
  if (held_.elsewhere == 0) return;
  spdlog::warn("{} holds {} of these points from another machine or commit; they stay as they are",
               options.csv, held_.elsewhere);
}

std::vector<Cells> SweepRows::unmeasured() const {
  std::vector<Cells> rows;
  for (const Point& point : points_) rows.push_back(cells(empty_row(point)));
  return rows;
}

std::optional<std::size_t> SweepRows::next() {
  for (; at_ < held_.missing.size(); ++at_) {
    const Point& point = points_[held_.missing[at_]];
    progress_.begin(point);
    try {
      if (point.simulated()) {
        require_simulable(point, cluster(point));
      } else {
        require_memory(point, hosts_, gpu_);
      }
      return held_.missing[at_];
    } catch (const Error&) {
      add(refused(point, std::current_exception()));
    }
  }
  return std::nullopt;
}

void SweepRows::record(const Outcome& outcome) {
  const Point& point = points_[held_.missing[at_++]];
  add(outcome.measurement ? judged(point, *outcome.measurement) : refused(point, outcome.failure));
}

Row SweepRows::empty_row(const Point& point) const {
  return {machine_name(point, gpu_, hosts_.machine()), kCommit, std::string(point.world()), point,
          point.simulated() ? 1 : options_.measure.repeats};
}

Row SweepRows::judged(const Point& point, const Measurement& measurement) {
  Row row = empty_row(point);
  row.result = result_of(point, measurement, flops(point, options_.measure));
  row.status = judge(measurement);
  if (point.has_backward()) note_unchecked(measurement);
  for (const ProbedCosts& costs : measurement.costs) note_costs(costs);
  if (point.simulated() && point.all_to_all == "automatic") {
    for (const ProbedCosts& costs : simulated_costs(point, cluster(point))) note_costs(costs);
  }
  if (row.status == "ok") row.status = judged_speed(point, *row.result);
  if (row.status == "ok") fill_efficiencies(row, finished_);
  failed_ |= row.status != "ok";
  legal_ = true;
  if (row.status == "ok" && point.simulated()) row.status = judge_fit(*row.result, cluster(point));
  return row;
}

Row SweepRows::refused(const Point& point, const std::exception_ptr& reason) {
  Row row = empty_row(point);
  bool illegal = false, given_up = false;
  try {
    std::rethrow_exception(reason);
  } catch (const Error& error) {
    row.status = one_line(error.what());
    illegal = error.kind() == ErrorKind::invalid_argument;
    given_up = error.kind() == ErrorKind::aborted;  // after --point-timeout
  } catch (const std::exception& error) {
    row.status = one_line(error.what());
  }
  if (illegal && refusal_.empty()) refusal_ = row.status;
  legal_ |= !illegal;
  failed_ |= !illegal && !given_up;
  return row;
}

const comm::Cluster& SweepRows::cluster(const Point& point) const {
  return options_.axes.clusters.at(point.cluster);
}

/// The peak is measured when first needed, and once more before a row is called impossible.
std::string SweepRows::judged_speed(const Point& point, const Result& result) {
  if (point.device == "cuda") return "ok";  // no peak of a GPU is measured here
  if (point.simulated()) {
    const double flops_per_second = cluster(point).gpu.flops_per_second;
    return judge_speed(point, result, flops_per_second * 1e-9 * static_cast<double>(point.ranks));
  }
  std::int64_t cores = 0;
  for (const Hosts::Share& host : hosts_.shares(point.transport, point.ranks))
    cores += std::min(host.ranks, host.cores);
  const auto used = static_cast<double>(cores);
  if (peak_gflops_ == 0) peak_gflops_ = fma_peak_gflops(0.1);
  const std::string status = judge_speed(point, result, peak_gflops_ * used);
  if (status == "ok") return status;
  peak_gflops_ = std::max(peak_gflops_, fma_peak_gflops(0.5));
  return judge_speed(point, result, peak_gflops_ * used);
}

/// Rows are reported as they come; illegal ones wait for the first legal one, because a sweep
/// without any is bad input and writes nothing.
void SweepRows::add(Row row) {
  waiting_.push_back(std::move(row));
  if (legal_) report();
}

void SweepRows::report() {
  progress_.clear_line();
  if (!noted_) notes();
  for (const Row& row : waiting_) {
    progress_.end(row);
    finished_.push_back(cells(row));
    if (reporter_) reporter_->append(finished_.back());
  }
  waiting_.clear();
}

/// What a reader of the numbers must know; once, on standard error.
void SweepRows::notes() {
  noted_ = true;
  const auto any = [this](const auto& predicate) {
    return std::any_of(points_.begin(), points_.end(), predicate);
  };
  if (any([](const Point& p) { return p.transport == "threads" && p.hop == "copy"; })) {
    spdlog::info(
        "on threads with copies nothing is hidden by nature: no copy engine moves bytes "
        "while the cores compute");
  }
  const auto crowded = [this](const Point& point) {
    if (point.simulated() || point.device == "cuda") return false;
    const auto hosts = hosts_.shares(point.transport, point.ranks);
    return std::any_of(hosts.begin(), hosts.end(),
                       [](const Hosts::Share& host) { return host.ranks > host.cores; });
  };
  if (any([](const Point& p) { return p.simulated(); })) {
    spdlog::info(
        "rows of the world 'simulated' are predictions: virtual time of a described cluster");
  }
  if (any(crowded)) {
    spdlog::info(
        "some points have more ranks than the {} cores: they are correct, but their "
        "times mean little",
        hosts_.machine().cores);
  }
  if (std::getenv("RINGSPAN_DEBUG")) spdlog::info("RINGSPAN_DEBUG is set: it costs time");
}

/// What "ok" does not say; once, on standard error.
void SweepRows::note_unchecked(const Measurement& measurement) {
  if (!measurement.deviation || measurement.sampled_keys > 0) return;
  if (std::exchange(noted_unchecked_, true)) return;
  progress_.clear_line();
  spdlog::info(
      "--check: at some points every key is seen by so many queries that no single key's dk and "
      "dv were compared{}",
      options_.measure.sinks ? "" : "; dv was, summed over all keys of a head");
}

/// What automatic all-to-alls go by; once, on standard error and, if it was measured, beside the
/// rows.
void SweepRows::note_costs(const ProbedCosts& probed) {
  const std::string text = summary(probed);
  if (!noted_costs_.insert(text).second) return;
  progress_.clear_line();
  spdlog::info("--all-to-all automatic: {}", text);
  if (options_.csv.empty() || comm::backend(probed.transport).world == "simulated") return;
  try {
    const std::filesystem::path csv(options_.csv);
    store_costs(std::filesystem::path(csv).replace_extension(".costs.json").string(), probed);
  } catch (const Error& error) {
    spdlog::warn("{}", error.what());  // no reason to lose rows
  }
}

int SweepRows::interrupt() {
  report();
  spdlog::warn("interrupted; finished rows are kept{}",
               reporter_ ? ", continue with --resume" : "");
  return kExitInterrupted;
}

int SweepRows::finish() {
  progress_.clear_line();
  RINGSPAN_REQUIRE(legal_ || refusal_.empty(), refusal_);
  if (held_.missing.empty()) spdlog::info("{} already holds every point", options_.csv);
  return failed_ ? kExitFailed : kExitOk;
}

}  // namespace ringspan::bench
