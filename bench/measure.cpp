// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <algorithm>
#include <memory>

#include "bench/rank_run.hpp"
#include "bench/watchdog.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

comm::LaunchOptions launch_options(const Point& point, const MeasureOptions& options) {
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  launch.ranks = static_cast<int>(point.ranks);
  launch.ranks_per_node = static_cast<int>(point.ranks_per_node);
  launch.hop = point.hop == "reference" ? comm::Hop::reference : comm::Hop::copy;
  if (options.deadline) launch.deadline = *options.deadline;
  return launch;
}

/// Sum over iterations of the steps of one rank: messages as in M, kernels as in C.
class StepSums {
 public:
  void add(const std::vector<Step>& steps, double Step::*part) {
    if (sums_.size() < steps.size()) sums_.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) sums_[i].*part += steps[i].*part;
  }
  const std::vector<Step>& sums() const { return sums_; }

 private:
  std::vector<Step> sums_;
};

/// One rank of a point; the same statements on all of them.
class RankMeasurement {
 public:
  RankMeasurement(const comm::Communicator& world, const Point& point,
                  const MeasureOptions& options)
      : world_(world), options_(options), run_(world, point, options) {}

  Measurement measure(bool check) {
    first_run();
    for (int i = 0; i < options_.warmup + options_.repeats; ++i) iterate(i);
    const double hideable = hideable_seconds(steps_.sums()) / options_.repeats;
    result_.times.hideable_seconds =
        comm::all_reduce(world_, hideable, comm::Reduction::sum) / world_.size();
    if (check) compare();
    return std::move(result_);
  }

 private:
  struct Mode {
    RunMode mode;
    std::vector<double> Times::*seconds;
  };
  static constexpr Mode kModes[] = {{kCompute, &Times::compute},
                                    {kSynchronised, &Times::synchronised},
                                    {kCommunication, &Times::communication},
                                    {kOverlapped, &Times::overlapped}};

  /// Everything once, which also touches all memory and fills every receive buffer with numbers.
  void first_run() {
    run_.run(kOverlapped);
    result_.sent = comm::all_gather_values(world_, run_.sent());
    if (const auto due = run_.closed_form()) {
      result_.closed_form = comm::all_gather_values(world_, *due);
    }
    result_.peak_bytes =
        comm::all_reduce(world_, world_.device().memory().peak, comm::Reduction::max);
  }

  void iterate(int iteration) {
    // Each iteration begins with another mode, so that none always profits from the one before.
    for (int k = 0; k < 4; ++k) time(kModes[(iteration + k) % 4], iteration >= options_.warmup);
  }

  void time(const Mode& mode, bool counted) {
    const double seconds = comm::all_reduce(world_, run_.run(mode.mode), comm::Reduction::max);
    const double kernels =
        comm::all_reduce(world_, run_.clock().kernel_seconds(), comm::Reduction::sum);
    if (!counted) return;
    Times& times = result_.times;
    (times.*mode.seconds).push_back(seconds);
    const std::vector<Step>& steps = run_.clock().steps();
    if (mode.seconds == &Times::compute) {
      times.kernel_compute.push_back(kernels);
      steps_.add(steps, &Step::kernel_seconds);
    } else if (mode.seconds == &Times::communication) {
      steps_.add(steps, &Step::message_seconds);
    } else if (mode.seconds == &Times::overlapped) {
      times.kernel_overlapped.push_back(kernels);
    }
  }

  void compare() {
    run_.run(kOverlapped);  // other modes left other results behind
    result_.deviation = Deviation{};
    for (const Deviation& rank : comm::all_gather_values(world_, run_.check())) {
      result_.deviation = combined(*result_.deviation, rank);
    }
    result_.sampled_rows = run_.sampled_rows();
  }

  comm::Communicator world_;
  const MeasureOptions& options_;
  RankRun run_;
  StepSums steps_;
  Measurement result_;
};

}  // namespace

Measurement measure(const Point& point, const MeasureOptions& options) {
  problem(point, options);  // refuses an illegal one before any rank starts
  Measurement result;
  comm::launch(
      point.transport, launch_options(point, options), [&](const comm::Communicator& world) {
        std::unique_ptr<Watchdog> watchdog;
        if (world.rank() == 0) {
          watchdog = std::make_unique<Watchdog>(world, options.point_timeout);
        }
        Measurement measured =
            RankMeasurement(world, point, options).measure(options.check && point.kernel != "null");
        if (world.rank() == 0) result = std::move(measured);
      });
  return result;
}

}  // namespace ringspan::bench
