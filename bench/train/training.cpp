// SPDX-License-Identifier: Apache-2.0
#include "bench/train/training.hpp"

#include <memory>
#include <span>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/random.hpp"
#include "comm/collectives.hpp"
#include "comm/split_evenly.hpp"
#include "model/mesh.hpp"
#include "model/sample.hpp"
#include "model/shard_batch.hpp"
#include "model/trainer.hpp"

namespace ringspan::bench {
namespace {

/// Samples `first` and following of a step: stretches of the text that begin anywhere, the same
/// whatever ranks they are for.
std::vector<model::Sample> samples(const std::string& text, const TrainOptions& options, int step,
                                   Part part) {
  const std::int64_t starts = std::ssize(text) - options.length + 1;
  std::vector<model::Sample> samples(part.count);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t index = step * options.batch + part.first + i;
    const std::int64_t start = random_below(starts, options.config.seed, index);
    for (std::int64_t at = start; at < start + options.length; ++at) {
      samples[i].ids.push_back(static_cast<unsigned char>(text[at]));
    }
  }
  return samples;
}

/// One rank.
class RankTraining {
 public:
  RankTraining(const comm::Communicator& world, const TrainOptions& options)
      : options_(options),
        mesh_(world, options.mesh),
        kernels_(options.kernel == "linear"
                     ? attention::make_linear_kernels(world.device())
                     : attention::make_kernels(options.kernel, world.device())),
        schedule_(attention::make_schedule(options.schedule, mesh_.sequence(), *kernels_,
                                           schedule_options())),
        observed_(*schedule_, mesh_.tensor().rank()),
        model_(options.config, options.memory, mesh_, observed_),
        trainer_(model_, mesh_, options.optimizer) {}

  /// Throws invalid_argument.
  void require_possible() const {
    const Part part = split_evenly(options_.batch, mesh_.data().size(), mesh_.data().rank());
    model_.require_possible({options_.length}, part.count);
  }

  /// Collective.
  TrainedStep step(const std::string& text, int index) {
    const comm::Communicator& world = mesh_.world();
    const Part part = split_evenly(options_.batch, mesh_.data().size(), mesh_.data().rank());
    const std::vector<model::Sample> batch = samples(text, options_, index, part);
    if (index == 0) model::require_same(mesh_.samples(), batch);
    const attention::Sequence sequence = model::common_sequence(batch);
    const model::Tokens shard =
        model::shard_batch(batch, sequence, schedule_->shard(sequence), part.first);

    observed_.observe(index == 0 && options_.compare && options_.config.reproducible, part.first);
    comm::Device& device = world.device();
    comm::barrier(world);
    device.reset_peak();
    const std::int64_t sent_before = world.traffic().bytes_sent;
    const double start = device.now();
    const model::LossSum loss = trainer_.step(sequence, shard);
    const double seconds = device.now() - start;
    const std::int64_t sent = world.traffic().bytes_sent - sent_before;
    const std::int64_t parameters = trainer_.parameter_bytes();
    const std::int64_t activations = device.memory().peak - parameters;
    return {index + 1,
            loss.mean(),
            comm::all_reduce(world, seconds, comm::Reduction::max),
            comm::all_reduce(world, activations, comm::Reduction::max),
            comm::all_reduce(world, parameters, comm::Reduction::max),
            comm::all_reduce(world, sent, comm::Reduction::max),
            observed_.bits(world)};
  }

 private:
  attention::ScheduleOptions schedule_options() const {
    const attention::ScheduleEntry& schedule = attention::schedule_entry(options_.schedule);
    attention::ScheduleOptions options;
    if (schedule.takes_ulysses_degree) options = mesh_.schedule_options();
    options.inner_ring = options_.inner_ring;
    options.head_groups = options_.head_groups;
    options.backward = options_.backward;
    options.resends =
        schedule.takes_all_to_all && options_.memory.recompute == model::Recompute::selective_plus;
    return options;
  }

  const TrainOptions& options_;
  model::Mesh mesh_;
  std::unique_ptr<attention::Kernels> kernels_;
  std::unique_ptr<attention::Schedule> schedule_;
  ObservedSchedule observed_;
  model::Transformer model_;
  model::Trainer trainer_;
};

comm::LaunchOptions launch_options(const TrainOptions& options) {
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  launch.ranks = options.ranks();
  launch.hop = options.hop;
  if (options.deadline) launch.deadline = *options.deadline;
  return launch;
}

}  // namespace

void require_possible_on(std::string_view transport, const TrainOptions& options) {
  comm::launch(transport, launch_options(options), [&](const comm::Communicator& world) {
    RankTraining(world, options).require_possible();
  });
}

void train_on(std::string_view transport, const TrainOptions& options, const std::string& text,
              const std::function<void(const TrainedStep&)>& report) {
  comm::launch(transport, launch_options(options), [&](const comm::Communicator& world) {
    RankTraining training(world, options);
    for (int step = 0; step < options.steps; ++step) {
      const TrainedStep trained = training.step(text, step);
      if (world.rank() == 0) report(trained);
    }
  });
}

}  // namespace ringspan::bench
