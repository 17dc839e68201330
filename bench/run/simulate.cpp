// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulate.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/random.hpp"
#include "bench/run/rank_run.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

struct Mode {
  RunMode mode;
  std::vector<double> Times::*seconds;
  std::vector<double> Times::*kernel_seconds;  // or none
};

constexpr Mode kModes[][2] = {
    {{kOverlapped, &Times::overlapped, &Times::kernel_overlapped},
     {kSynchronised, &Times::synchronised, nullptr}},
    {{kCompute, &Times::compute, &Times::kernel_compute},
     {kCommunication, &Times::communication, nullptr}},
};

/// What all ranks of a point measure together. They take turns on one thread.
class Simulation {
 public:
  Simulation(const Point& point, const MeasureOptions& options, ModePair modes)
      : point_(point),
        options_(options),
        measured_(kModes[static_cast<int>(modes)]),
        modes_(static_cast<std::size_t>(point.ranks), nullptr),
        waits_(static_cast<std::size_t>(point.ranks)) {
    result_.sent.resize(modes_.size());
    result_.times.exact = true;
    if (modes == ModePair::one_of_them) result_.times.hideable.assign(1, 0);
    for (const Mode& mode : measured_) {
      (result_.times.*mode.seconds).assign(1, 0);
      if (mode.kernel_seconds) (result_.times.*mode.kernel_seconds).assign(1, 0);
    }
  }

  void run(const comm::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    RankRun run(world, point_, options_);
    std::vector<Step> compute;
    for (const Mode& mode : measured_) {
      modes_[rank] = &mode;
      waits_[rank].clear();
      double& longest = (result_.times.*mode.seconds)[0];
      longest = std::max(longest, run.run(mode.mode));
      modes_[rank] = nullptr;
      if (mode.seconds == &Times::compute) compute = run.clock().steps();
      if (mode.seconds == &Times::communication) add_hideable(rank, run.clock().steps(), compute);
      if (mode.seconds != &Times::overlapped) continue;
      result_.sent[rank] = run.sent();
      result_.peak_bytes = std::max(result_.peak_bytes, world.device().memory().peak);
    }
    if (rank == 0) result_.closed_form = closed_form(point_, options_, world.world());
  }

  /// Everything that a rank runs in a mode ends before its clock does.
  void trace(const comm::TraceSpan& span) {
    using Kind = comm::TraceSpan::Kind;
    const auto rank = static_cast<std::size_t>(span.rank);
    const Mode* mode = modes_[rank];
    if (!mode) return;
    const double seconds = span.end - span.start;
    if (span.kind == Kind::wait) waits_[rank].push_back(seconds);
    if (span.kind == Kind::kernel && mode->kernel_seconds)
      (result_.times.*mode->kernel_seconds)[0] += seconds;
  }

  Measurement result() && { return std::move(result_); }

 private:
  /// From the steps of this rank, of whose messages the compute queue waits for all: it is what
  /// kernels would have to be ahead of. The barrier before the pass has waited, too.
  void add_hideable(std::size_t rank, std::vector<Step> communication,
                    const std::vector<Step>& compute) {
    auto wait = waits_[rank].cend() - std::count_if(communication.begin(), communication.end(),
                                                    [](const Step& step) { return step.waited; });
    for (Step& step : communication) step.message_seconds = step.waited ? *wait++ : 0;
    result_.times.hideable[0] +=
        hideable_seconds(communication, compute) / static_cast<double>(point_.ranks);
  }

  const Point& point_;
  const MeasureOptions& options_;
  const std::span<const Mode> measured_;
  std::vector<const Mode*> modes_;          // [rank]: what is being timed there
  std::vector<std::vector<double>> waits_;  // [rank]: of this mode, in order
  Measurement result_;
};

}  // namespace

void require_simulable(const Point& point, const comm::Cluster& cluster) {
  RINGSPAN_REQUIRE(point.kernel.starts_with("modelled") || point.kernel == "null", "kernel ",
                   point.kernel,
                   " works on data, and simulated ranks have none; theirs are "
                   "modelled and null");
  RINGSPAN_REQUIRE(point.hop == "copy", "hop ", point.hop,
                   ": simulated ranks share no memory; it must be copy");
  comm::places(cluster, static_cast<int>(point.ranks),
               static_cast<int>(point.pretended_ranks_per_node));
}

comm::LaunchOptions simulated_launch(const Point& point, const MeasureOptions& options,
                                     const comm::Cluster& cluster) {
  require_simulable(point, cluster);
  comm::Cluster used = comm::without_empty_nodes(cluster, static_cast<int>(point.ranks),
                                                 static_cast<int>(point.pretended_ranks_per_node));
  used.noise_seed = random_bits(options.seed, 0);  // neighbouring seeds have nothing in common
  comm::LaunchOptions launch;
  launch.ranks = static_cast<int>(point.ranks);
  launch.ranks_per_node = static_cast<int>(point.pretended_ranks_per_node);
  launch.cluster = std::make_shared<const comm::Cluster>(std::move(used));
  return launch;
}

Measurement simulate(const Point& point, const MeasureOptions& options,
                     const comm::Cluster& cluster, ModePair modes) {
  problem(point, options);  // refuses an illegal one before any rank starts
  Simulation simulation(point, options, modes);
  comm::LaunchOptions launch = simulated_launch(point, options, cluster);
  launch.trace = [&](const comm::TraceSpan& span) { simulation.trace(span); };
  launch.trace_joins_kernels = true;
  comm::launch(point.transport, launch,
               [&](const comm::Communicator& world) { simulation.run(world); });
  return std::move(simulation).result();
}

Measurement joined(Measurement with_kernels_and_messages, const Measurement& one_of_them) {
  Times& times = with_kernels_and_messages.times;
  times.compute = one_of_them.times.compute;
  times.communication = one_of_them.times.communication;
  times.kernel_compute = one_of_them.times.kernel_compute;
  times.hideable = one_of_them.times.hideable;
  return with_kernels_and_messages;
}

}  // namespace ringspan::bench
