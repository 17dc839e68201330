// SPDX-License-Identifier: Apache-2.0
#include "bench/train/bytes_needed.hpp"

#include "model/memory/kept_by_block.hpp"

namespace ringspan::bench {
namespace {

double real(std::int64_t count) { return static_cast<double>(count); }

/// Elements, summed over the ranks of a tensor group: they cut all but embedding and head. Norms
/// and biases are too small to count.
double parameters(const model::ModelConfig& config, int tensor) {
  const bool llama = config.variant == model::Variant::llama;
  const double attention = 2 * (real(config.heads) + real(config.kv_heads)) * real(config.head_dim);
  const double mlp = (llama ? 3 : 2) * real(config.mlp_hidden);
  const double whole = 2 * real(config.vocabulary) + (llama ? 0 : real(config.positions));
  return real(config.hidden) * (real(config.layers) * (attention + mlp) + tensor * whole);
}

/// Bytes for each token: what all blocks keep, wherever it lies; behind them a row and its
/// gradient, and the logits of a tile.
double activations(const TrainOptions& options) {
  const model::ModelConfig& config = options.config;
  model::MemoryOptions memory = options.memory;
  memory.offload = false;  // to memory that the device does not count, but the machine has to have
  const double block = real(model::kept_by_block(config, memory, {.shard = 1, .piece = 1}));
  const double logits = real(config.vocabulary) / real(memory.loss_tiles);
  return real(config.layers) * block +
         (2 * real(config.hidden) + logits) * real(attention::element_bytes(config.dtype));
}

}  // namespace

double bytes_needed(const TrainOptions& options) {
  const model::MeshShape& mesh = options.mesh;
  const double tokens = real(options.length) * real(options.batch);
  const double samples = tokens * mesh.sequence() * mesh.tensor * sizeof(std::int64_t);
  const double copies = 2 + 2.0 / mesh.shard;  // values, gradients; two moments, divided
  const double of_parameters = copies * mesh.sequence() * mesh.data() *
                               parameters(options.config, mesh.tensor) *
                               real(attention::element_bytes(options.config.dtype));
  return samples + of_parameters + tokens * activations(options);
}

}  // namespace ringspan::bench
