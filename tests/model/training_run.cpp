// SPDX-License-Identifier: Apache-2.0
#include "tests/model/training_run.hpp"

#include <cmath>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "comm/collectives.hpp"
#include "model/gradients.hpp"
#include "model/random.hpp"
#include "model/trainer.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model::test {

using attention::Sequence;

Text::Text(Sequence sequence_, std::int64_t samples_, std::int64_t vocabulary, std::uint64_t seed)
    : sequence(std::move(sequence_)), samples(samples_) {
  std::vector<std::int64_t> documents = sequence.documents;
  if (documents.empty()) documents = {sequence.length};
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    std::int64_t place = 0;
    const auto add = [&](std::int64_t position, bool last) {
      const std::int64_t index = sample * sequence.length + place;
      const auto id = [&](std::int64_t i) { return random_below(vocabulary, seed, i); };
      whole.ids.push_back(id(index));
      whole.labels.push_back(last || index % 7 == 3 ? kIgnoredLabel : id(index + 1));
      whole.positions.push_back(position);
      whole.places.push_back(place++);
      whole.samples.push_back(sample);
      whole.weights.push_back(index % 5 == 1 ? 2 : 1);
    };
    for (const std::int64_t length : documents) {
      for (std::int64_t at = 0; at < length; ++at) add(at, at + 1 == length);
    }
    while (place < sequence.length) add(0, true);  // padding
  }
}

Tokens Text::tokens(const attention::Shard& shard, std::int64_t first, std::int64_t batch) const {
  Tokens rows;
  rows.batch = batch;
  for (const std::int64_t place : attention::positions(shard)) {
    for (std::int64_t sample = first; sample < first + batch; ++sample) {
      const std::int64_t at = sample * sequence.length + place;
      rows.ids.push_back(whole.ids[at]);
      rows.labels.push_back(whole.labels[at]);
      rows.positions.push_back(whole.positions[at]);
      rows.places.push_back(whole.places[at]);
      rows.samples.push_back(whole.samples[at]);
      rows.weights.push_back(whole.weights[at]);
    }
  }
  return rows;
}

namespace {

std::unique_ptr<attention::Schedule> schedule_of(const Mesh& mesh, const TrainingSetup& setup,
                                                 attention::Kernels& kernels) {
  const attention::ScheduleEntry& schedule = attention::schedule_entry(setup.schedule);
  attention::ScheduleOptions options;
  if (schedule.takes_ulysses_degree) options = mesh.schedule_options();
  options.inner_ring = setup.inner_ring;
  options.backward = setup.backward;
  options.resends =
      schedule.takes_all_to_all && setup.memory.recompute == Recompute::selective_plus;
  return attention::make_schedule(setup.schedule, mesh.sequence(), kernels, options);
}

}  // namespace

RankModel::RankModel(const comm::Communicator& world, const TrainingSetup& setup, const Text& text)
    : mesh(world, setup.mesh),
      kernels(attention::make_kernels(
          setup.config.dtype == attention::DType::f64 ? "reference" : "cpu", world.device())),
      schedule(schedule_of(mesh, setup, *kernels)),
      model(setup.config, setup.memory, mesh, *schedule) {
  const Part samples = split_evenly(text.samples, mesh.data().size(), mesh.data().rank());
  tokens = text.tokens(schedule->shard(text.sequence), samples.first, samples.count);
}

std::vector<double> whole(const Mesh& mesh, const Parameters& parameters, bool gradients) {
  std::vector<double> all;
  for (const Parameter& parameter : parameters.all()) {
    const Matrix& part = gradients ? parameter.gradient : parameter.value;
    const std::int64_t offset = std::ssize(all);
    all.resize(all.size() + parameter.rows * parameter.columns);
    const bool cut = parameter.cut != Cut::none;
    if (!cut && mesh.tensor().rank() > 0) continue;
    const auto first = [&](Cut axis, std::int64_t total) {
      return parameter.cut == axis
                 ? split_evenly(total, mesh.tensor().size(), mesh.tensor().rank()).first
                 : 0;
    };
    const std::int64_t row = first(Cut::rows, parameter.rows);
    const std::int64_t column = first(Cut::columns, parameter.columns);
    with_real(part.dtype(), [&](auto zero) {
      using Real = decltype(zero);
      for (std::int64_t i = 0; i < part.rows(); ++i) {
        for (std::int64_t j = 0; j < part.columns(); ++j) {
          all[offset + (row + i) * parameter.columns + column + j] = part.data<Real>(i)[j];
        }
      }
    });
  }
  const comm::Buffer borrowed(reinterpret_cast<std::byte*>(all.data()),
                              std::ssize(all) * std::int64_t{sizeof(double)}, {});
  comm::all_reduce(mesh.tensor(), comm::whole(borrowed), comm::Element::f64);
  return all;
}

Outcome train(const TrainingSetup& setup, const Text& text) {
  Outcome outcome;
  std::mutex mutex;
  comm::LaunchOptions options;
  options.ranks = setup.mesh.tensor * setup.mesh.sequence() * setup.mesh.data();
  options.ranks_per_node = options.ranks % 2 == 0 ? 2 : 0;
  options.debug = {.ledger = true, .poison = true};
  comm::test::launch(options, [&](const comm::Communicator& world) {
    RankModel rank(world, setup, text);
    const LossSum total =
        all_reduce(rank.mesh, rank.model.loss_and_gradients(text.sequence, rank.tokens, 0));
    reduce_gradients(rank.mesh, total, rank.model.parameters());
    Outcome own{total.mean(), total.count, whole(rank.mesh, rank.model.parameters(), true), {}};
    fill(rank.model.parameters().gradients(), 0);
    Trainer trainer(rank.model, rank.mesh, {});
    for (int step = 0; step < setup.steps; ++step) {
      own.losses.push_back(trainer.step(text.sequence, rank.tokens).mean());
    }
    const std::lock_guard lock(mutex);
    if (!outcome.gradients.empty() &&
        (own.gradients != outcome.gradients || own.losses != outcome.losses)) {
      throw std::runtime_error("two ranks have different losses or gradients");
    }
    outcome = std::move(own);
  });
  return outcome;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a.at(i) - b[i]) * (a.at(i) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

ModelConfig tiny(Variant variant, attention::DType dtype) {
  ModelConfig config;
  config.variant = variant;
  config.vocabulary = 11;
  config.hidden = 14;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 6;
  config.mlp_hidden = 19;
  config.positions = 40;
  config.dropout = variant == Variant::gpt ? 0.2 : 0;
  config.weight_deviation = 0.2;  // so that no part of the gradient is close to nothing
  config.dtype = dtype;
  return config;
}

}  // namespace ringspan::model::test
