// SPDX-License-Identifier: Apache-2.0
#include "bench/run/measure.hpp"

#include <algorithm>
#include <memory>

#include "attention/schedules/usp_position.hpp"
#include "bench/run/exchange_groups.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/watchdog.hpp"
#include "comm/collectives.hpp"

namespace ringspan::bench {

comm::LaunchOptions launch_options(const Point& point, const MeasureOptions& options) {
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  launch.ranks = static_cast<int>(point.ranks);
  launch.ranks_per_node = static_cast<int>(point.pretended_ranks_per_node);
  launch.hop = point.hop == "reference" ? comm::Hop::reference : comm::Hop::copy;
  launch.gpu_memory = point.device == "cuda";
  if (options.deadline) launch.deadline = *options.deadline;
  return launch;
}

std::optional<GroupCosts> exchange_costs(const Point& point, const comm::Communicator& world,
                                         KnownCosts& known) {
  if (point.all_to_all != "automatic" || !comm::ranks_are_processes(comm::backend(point.transport)))
    return std::nullopt;
  return known.of(world, point.transport, exchange_groups(point, attention::places(world)));
}

namespace {

/// One rank of a point; the same statements on all of them.
class RankMeasurement {
 public:
  RankMeasurement(const comm::Communicator& world, const Point& point,
                  const MeasureOptions& options)
      : world_(world), options_(options), run_(world, point, options) {}

  Measurement measure(bool check) {
    first_run();
    for (int i = 0; i < options_.warmup + options_.repeats; ++i) iterate(i);
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
    world_.device().reset_peak();  // the staging of what came before
    run_.run(kOverlapped);
    const std::int64_t peak = world_.device().memory().peak;  // before the staging of what follows
    result_.sent = comm::all_gather_values(world_, run_.sent());
    result_.closed_form = comm::all_gather_values(world_, run_.closed_form());
    result_.peak_bytes = comm::all_reduce(world_, peak, comm::Reduction::max);
  }

  void iterate(int iteration) {
    // Each iteration begins with another mode, so that none always profits from the one before.
    const bool counted = iteration >= options_.warmup;
    for (int k = 0; k < 4; ++k) time(kModes[(iteration + k) % 4], counted);
    const double hideable = comm::all_reduce(
        world_, hideable_seconds(communication_steps_, compute_steps_), comm::Reduction::sum);
    if (counted && kernels_block_) result_.times.hideable.push_back(hideable / world_.size());
  }

  void time(const Mode& mode, bool counted) {
    const double seconds = comm::all_reduce(world_, run_.run(mode.mode), comm::Reduction::max);
    const double kernels =
        comm::all_reduce(world_, run_.clock().kernel_seconds(), comm::Reduction::sum);
    if (mode.seconds == &Times::compute) compute_steps_ = run_.clock().steps();
    if (mode.seconds == &Times::communication) communication_steps_ = run_.clock().steps();
    if (!counted) return;
    Times& times = result_.times;
    (times.*mode.seconds).push_back(seconds);
    if (!kernels_block_) return;
    if (mode.seconds == &Times::compute) times.kernel_compute.push_back(kernels);
    if (mode.seconds == &Times::overlapped) times.kernel_overlapped.push_back(kernels);
  }

  void compare() {
    run_.run(kOverlapped);  // other modes left other results behind
    result_.deviation = run_.check_sums();
    for (const Deviation& rank : comm::all_gather_values(world_, run_.check())) {
      result_.deviation = combined(*result_.deviation, rank);
    }
    result_.sampled_rows = run_.sampled_rows();
    result_.sampled_keys = run_.sampled_keys();
  }

  comm::Communicator world_;
  const MeasureOptions& options_;
  RankRun run_;
  const bool kernels_block_ = world_.device().host_reaches_memory();  // else they are only queued
  std::vector<Step> communication_steps_, compute_steps_;             // of this iteration
  Measurement result_;
};

}  // namespace

void require_device(const Point& point) {
  const comm::Backend& backend = comm::backend(point.transport);
  const bool for_gpus = backend.world == "gpu";
  const bool for_both = !for_gpus && backend.process;  // mpi and ucx
  RINGSPAN_REQUIRE(for_both || for_gpus == (point.device == "cuda"), "--device ", point.device,
                   ": transport '", point.transport, "' moves memory of ",
                   for_gpus ? "GPUs" : "the host",
                   "; those of GPUs are nccl and cuda_ipc, of either mpi and ucx");
}

Measurement measure(const Point& point, const MeasureOptions& options, KnownCosts& known) {
  require_device(point);
  problem(point, options);  // refuses an illegal one before any rank starts
  const bool apart = comm::ranks_are_processes(comm::backend(point.transport));
  Measurement result;
  comm::launch(point.transport, launch_options(point, options),
               [&](const comm::Communicator& world) {
                 const auto costs = exchange_costs(point, world, known);  // no part of its time
                 std::unique_ptr<Watchdog> watchdog;                      // one in a process
                 if (world.rank() == 0 || apart) {
                   watchdog = std::make_unique<Watchdog>(world, options.point_timeout);
                 }
                 world.device().reset_peak();  // what the probe had is not the point's
                 RankMeasurement rank(costs ? world.knowing(costs->own) : world, point, options);
                 Measurement measured = rank.measure(options.check && point.kernel != "null");
                 if (costs) measured.costs = costs->probed;
                 if (world.rank() == 0) result = std::move(measured);
               });
  return result;
}

}  // namespace ringspan::bench
