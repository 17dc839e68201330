// SPDX-License-Identifier: Apache-2.0
#include "bench/training/training_memory.hpp"

#include <algorithm>

#include "bench/training/layer_pass.hpp"
#include "model/memory/layer_activations.hpp"

namespace ringspan::bench {
namespace {

constexpr double kElement = 2;  // bytes

/// One end of a pipeline; the two are the same without one.
struct Stage {
  double layers = 0;      // of the model
  double embeddings = 0;  // matrices of [vocabulary][hidden]
  double in_flight = 0;   // micro-batches whose activations it keeps
  double embedded = 0;    // micro-batches that it keeps dropout's mask behind the embedding of
  bool last = false;
};

/// Of Recompute::full it is what is there while its backward pass runs.
model::LayerShare layer_share(const Model& model, const TrainingConfig& config) {
  model::LayerShare share;
  share.tokens = config.tokens();
  share.residual_tokens = residual_tokens(config);
  share.keys = config.sequence_length;
  share.hidden = model.hidden;
  share.heads = model.heads / config.tensor;
  share.kv_heads = kv_heads_per_rank(model, config);
  share.head_dim = model.head_dim;
  share.mlp_hidden = model.ffn_hidden / config.tensor;
  share.gated = model.gated;
  share.dropout = config.dropout;
  if (config.attention == AttentionKind::flash) {
    share.scores = model::KeptScores::lse;
  } else if (config.recompute == Recompute::selective) {
    share.scores = model::KeptScores::none;
  }
  return share;
}

/// While the backward pass of a layer runs: gradients of its MLP, or of its attention.
double gradient_workspace(const Model& model, const TrainingConfig& config,
                          double attention_workspace) {
  const model::LayerShare share = layer_share(model, config);
  const double tokens = kElement * static_cast<double>(share.tokens);
  const auto heads = static_cast<double>((2 * share.heads + 2 * share.kv_heads) * share.head_dim);
  const auto mlp = static_cast<double>((model.gated ? 3 : 2) * share.mlp_hidden);
  return std::max(tokens * mlp, tokens * heads + attention_workspace);
}

double workspace(const Model& model, const TrainingConfig& config, double attention_workspace) {
  double bytes = gradient_workspace(model, config, attention_workspace);
  if (config.recompute == Recompute::full) {
    bytes += model::layer_activation_bytes(layer_share(model, config)).total();
  }
  const double layer = static_cast<double>(layer_parameters(model)) / config.tensor;
  if (config.zero_stage == 3) bytes += 2 * kElement * layer;  // this layer and the next, gathered
  if (config.zero_stage >= 2) bytes += static_cast<double>(config.gradient_bytes) * layer;
  return bytes;
}

TrainingMemory stage_memory(const Model& model, const TrainingConfig& config, const Stage& stage,
                            double attention_workspace) {
  const double embedding = static_cast<double>(model.vocabulary * model.hidden);
  const double held =
      (stage.layers * static_cast<double>(layer_parameters(model)) + stage.embeddings * embedding) /
      config.tensor;
  const auto sharded_from = [&](int stage_of_zero) {
    return config.zero_stage >= stage_of_zero ? static_cast<double>(config.replicas()) : 1;
  };
  constexpr double kAdam = 12;  // master weight and two moments
  TrainingMemory memory;
  memory.parameters = held * kElement / sharded_from(3);
  memory.gradients = held * static_cast<double>(config.gradient_bytes) / sharded_from(2);
  memory.optimizer = held * kAdam / sharded_from(1);
  memory.activations = stage.layers * stage.in_flight * layer_activation_bytes(model, config);
  const auto residual = static_cast<double>(residual_tokens(config) * model.hidden);
  if (config.dropout) memory.activations += stage.embedded * residual;
  memory.workspace = workspace(model, config, attention_workspace);
  if (!stage.last) return memory;
  const double width = static_cast<double>(model.vocabulary) / config.tensor;
  memory.logits = 2 * kElement * residual;  // what goes into the last norm and comes out of it
  if (!config.tiled_logits) {
    memory.logits += static_cast<double>(config.tokens()) * width * (kElement + 4);
  }
  return memory;
}

}  // namespace

std::int64_t layer_parameters(const Model& model) {
  const std::int64_t attention = (2 * model.heads + 2 * model.kv_heads) * model.head_dim;
  const std::int64_t mlp = (model.gated ? 3 : 2) * model.ffn_hidden * model.experts;
  constexpr std::int64_t kNorms = 2;
  return model.hidden * (attention + mlp + kNorms);
}

std::int64_t parameters(const Model& model) {
  return model.layers * layer_parameters(model) + model.hidden +
         (model.tied ? 1 : 2) * model.vocabulary * model.hidden;
}

double layer_activation_bytes(const Model& model, const TrainingConfig& config) {
  const model::LayerShare share = layer_share(model, config);
  return config.recompute == Recompute::full ? model::layer_input_bytes(share)
                                             : model::layer_activation_bytes(share).total();
}

TrainingMemory training_memory(const Model& model, const TrainingConfig& config,
                               double attention_workspace) {
  const auto layers = static_cast<double>(most_layers(model, config));
  const double embeddings = model.tied ? 1 : 2;
  if (config.pipeline == 1) {
    return stage_memory(model, config, {layers, embeddings, 1, 1, true}, attention_workspace);
  }
  const auto in_flight = [&](int stage) {
    return model::micro_batches_in_flight(config.pipeline, config.pipeline_interleave, stage,
                                          config.micro_batches());
  };
  const auto embedded =
      static_cast<double>(std::min<std::int64_t>(config.pipeline, config.micro_batches()));
  const TrainingMemory first =
      stage_memory(model, config, {layers, 1, in_flight(0), embedded, false}, attention_workspace);
  const double at_end = in_flight(config.pipeline - 1);
  const TrainingMemory last =
      stage_memory(model, config, {layers, 1, at_end, 0, true}, attention_workspace);
  return first.total() > last.total() ? first : last;
}

}  // namespace ringspan::bench
