// SPDX-License-Identifier: Apache-2.0
// The classic exercise: a sequence of 4,096 tokens in four chunks of 1,024, one on each of four
// ranks; one attention layer and one MLP; loss and gradients against full attention over the whole
// sequence on one rank. Each rank sees a quarter of the tokens, and ring attention is all that
// passes between them in the forward pass.
#include <cmath>
#include <cstdio>
#include <vector>

#include "attention/schedule.hpp"
#include "comm/launch.hpp"
#include "model/gradients.hpp"
#include "model/mesh.hpp"
#include "model/random.hpp"
#include "model/shard_batch.hpp"
#include "model/trainer.hpp"
#include "model/transformer.hpp"

namespace {

using namespace ringspan;

constexpr std::int64_t kTokens = 4096;

struct Result {
  double loss = 0;
  std::vector<float> gradients;  // of all parameters
};

/// The same sample for any number of ranks: a run that ends in a surprise, again and again.
model::Sample sample(std::int64_t vocabulary) {
  model::Sample sample;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    sample.ids.push_back(i % 9 < 7 ? i % 9 : model::random_below(vocabulary, 1, i));
  }
  return sample;
}

Result train_once(int ranks) {
  model::ModelConfig config;
  config.layers = 1;

  Result result;
  comm::LaunchOptions options;
  options.ranks = ranks;
  comm::launch("threads", options, [&](const comm::Communicator& world) {
    const model::Mesh mesh(world, {.ring = ranks});
    const auto kernels = attention::make_kernels("cpu", world.device());
    const auto schedule = attention::make_schedule("ring", mesh.sequence(), *kernels);
    model::Transformer transformer(config, {}, mesh, *schedule);

    // What this rank holds of the sample: its chunk, with labels shifted before it was cut.
    const std::vector<model::Sample> batch{sample(config.vocabulary)};
    const attention::Sequence sequence = model::common_sequence(batch);
    const model::Tokens chunk = model::shard_batch(batch, sequence, schedule->shard(sequence));

    // Sums over the chunk, then over the ranks, then one division.
    const model::LossSum own = transformer.loss_and_gradients(sequence, chunk, 0);
    const model::LossSum total = model::all_reduce(mesh, own);
    model::reduce_gradients(mesh, total, transformer.parameters());

    std::printf("rank %d of %d: %lld tokens from %lld, loss of its own %.6f\n", world.rank(), ranks,
                static_cast<long long>(chunk.rows()), static_cast<long long>(chunk.places.front()),
                own.mean());
    if (world.rank() > 0) return;
    const model::Matrix& gradients = transformer.parameters().gradients();
    const float* const values = gradients.data<float>();
    result = {total.mean(), {values, values + gradients.elements()}};
  });
  return result;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace

int main() {
  const Result one = train_once(1), four = train_once(4);
  const double loss = std::abs(four.loss - one.loss) / one.loss;
  const double gradients = relative_difference(four.gradients, one.gradients);
  std::printf("loss      one rank %.9f, four ranks %.9f, relative difference %.1e\n", one.loss,
              four.loss, loss);
  std::printf("gradients of %zu parameters, relative difference %.1e\n", one.gradients.size(),
              gradients);
  return loss <= 1e-6 && gradients <= 1e-6 ? 0 : 1;
}
