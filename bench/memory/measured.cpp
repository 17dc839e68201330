// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/measured.hpp"

#include <algorithm>
#include <memory>

#include "attention/schedule.hpp"
#include "bench/random.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "model/memory/kept_by_block.hpp"
#include "model/memory/layer_activations.hpp"
#include "model/sample.hpp"
#include "model/shard_batch.hpp"
#include "model/transformer.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kFew = 1, kMany = 3;  // layers

model::ModelConfig config_of(std::int64_t layers) {
  model::ModelConfig config;
  config.layers = layers;
  config.hidden = 128;
  config.heads = 8;
  config.mlp_hidden = 352;
  return config;
}

model::Sample sample(std::int64_t tokens, std::int64_t vocabulary) {
  model::Sample sample;
  for (std::int64_t i = 0; i < tokens; ++i) sample.ids.push_back(random_below(vocabulary, 1, i));
  return sample;
}

/// Of the rank with most, at the peak.
std::int64_t peak_bytes(const model::ModelConfig& config, const model::MemoryOptions& memory,
                        std::int64_t tokens, int ranks) {
  std::int64_t peak = 0;
  const comm::LaunchOptions options{.ranks = ranks};
  comm::launch("threads", options, [&](const comm::Communicator& world) {
    const model::Mesh mesh(world, {.ring = ranks});
    const auto kernels = attention::make_kernels("cpu", world.device());
    const auto schedule = attention::make_schedule("zigzag", mesh.sequence(), *kernels);
    model::Transformer transformer(config, memory, mesh, *schedule);
    const std::vector<model::Sample> batch{sample(tokens, config.vocabulary)};
    const attention::Sequence sequence = model::common_sequence(batch);
    const model::Tokens shard = model::shard_batch(batch, sequence, schedule->shard(sequence));
    world.device().reset_peak();
    transformer.loss_and_gradients(sequence, shard, 0);
    const model::Parameters& parameters = transformer.parameters();
    const std::int64_t own =
        world.device().memory().peak - parameters.values().bytes() - parameters.gradients().bytes();
    const std::int64_t most = comm::all_reduce(world, own, comm::Reduction::max);
    if (world.rank() == 0) peak = most;
  });
  return peak;
}

/// Elements of 32 bits in place of 16; the lse has 32 in any case.
double published_bytes(const model::ModelConfig& config, std::int64_t rows, std::int64_t keys) {
  const model::LayerBytes bytes = model::layer_activation_bytes({.tokens = rows,
                                                                 .residual_tokens = rows,
                                                                 .keys = keys,
                                                                 .hidden = config.hidden,
                                                                 .heads = config.heads,
                                                                 .kv_heads = config.kv_heads,
                                                                 .head_dim = config.head_dim,
                                                                 .mlp_hidden = config.mlp_hidden,
                                                                 .gated = true,
                                                                 .scores = model::KeptScores::lse});
  return 2 * (bytes.norms + bytes.attention + bytes.mlp) + bytes.scores;
}

}  // namespace

std::vector<MemoryMode> memory_modes() {
  using model::Recompute;
  return {
      {"nothing recomputed", {}},
      {"the MLP recomputed (selective)", {.recompute = Recompute::selective}},
      {"all but attention recomputed (selective_plus)", {.recompute = Recompute::selective_plus}},
      {"all recomputed (full)", {.recompute = Recompute::full}},
      {"full, in 8 tiles of the MLP and the loss",
       {.recompute = Recompute::full, .mlp_tiles = 8, .loss_tiles = 8}},
      {"the same, blockwise",
       {.recompute = Recompute::full, .mlp_tiles = 8, .blockwise = true, .loss_tiles = 8}},
      {"the same, inputs offloaded", {Recompute::full, true, 8, true, 8}},
  };
}

MeasuredMemory measure_memory(std::int64_t sequence_length, int ranks, const MemoryMode& mode) {
  const std::int64_t rows = (sequence_length + ranks - 1) / ranks;
  const auto peak = [&](std::int64_t layers) {
    return peak_bytes(config_of(layers), mode.options, sequence_length, ranks);
  };
  const std::int64_t many = peak(kMany);
  return {.kept = static_cast<double>(many - peak(kFew)) / (kMany - kFew),
          .formula = static_cast<double>(
              model::kept_by_block(config_of(kMany), mode.options, {rows, rows})),
          .published = published_bytes(config_of(kMany), rows, sequence_length),
          .peak = static_cast<double>(many)};
}

}  // namespace ringspan::bench
