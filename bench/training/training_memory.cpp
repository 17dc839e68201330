// SPDX-License-Identifier: Apache-2.0
#include "bench/training/training_memory.hpp"

#include <algorithm>

#include "bench/training/layer_pass.hpp"

namespace ringspan::bench {
namespace {

constexpr double kElement = 2;  // bytes

/// One end of a pipeline; the two are the same without one.
struct Stage {
  double layers = 0;      // of the model
  double embeddings = 0;  // matrices of [vocabulary][hidden]
  double in_flight = 0;   // micro-batches whose activations it keeps
  bool last = false;
};

/// Micro-batches of 1F1B that a stage, counted from 0, has begun and not ended. With v chunks per
/// stage it begins those before its last one for p micro-batches, then runs ahead twice as far as
/// the end is away: on the first (1 + (p - 1) / (p v)) p (Korthikanti et al., section 4.2.3).
double in_flight(const TrainingConfig& config, int stage) {
  const double p = config.pipeline, v = config.pipeline_interleave;
  const double to_end = p - 1 - stage;
  const double most = v > 1 ? ((v - 1) * p + 1 + 2 * to_end) / v : 1 + to_end;
  return std::min(most, static_cast<double>(config.micro_batches()));
}

/// Activations between the products, of a token: kept whole without sequence parallelism.
double residual_bytes(const Model& model, const TrainingConfig& config) {
  const double h = static_cast<double>(model.hidden);
  const double norms = 2 * kElement * h, inputs = 2 * kElement * h;  // of both halves of a layer
  return norms + inputs + (config.dropout ? 2 * h : 0);
}

double heads_width(const Model& model, const TrainingConfig& config) {
  return static_cast<double>(model.heads / config.tensor * model.head_dim);
}
double kv_width(const Model& model, const TrainingConfig& config) {
  return static_cast<double>(kv_heads_per_rank(model, config) * model.head_dim);
}

/// The scores after softmax, the mask of dropout and what is left: 2 + 1 + 2 bytes each. Of flash
/// attention the lse.
double score_bytes(const Model& model, const TrainingConfig& config) {
  if (config.attention == AttentionKind::flash) {
    return 4 * static_cast<double>(config.tokens() * model.heads / config.tensor);
  }
  if (config.recompute == Recompute::selective) return 0;
  const double scores =
      static_cast<double>(model.heads / config.tensor) * static_cast<double>(config.micro_batch) *
      static_cast<double>(config.sequence_length) * static_cast<double>(config.sequence_length);
  return scores * (config.dropout ? 5 : 2);
}

/// All that the backward pass of a layer needs.
double whole_layer_bytes(const Model& model, const TrainingConfig& config) {
  const double tokens = static_cast<double>(config.tokens());
  const double mlp = static_cast<double>(model.ffn_hidden / config.tensor);
  // q and out, k and v; of the MLP what goes into the activation and what comes out of it.
  const double split = kElement * (2 * heads_width(model, config) + 2 * kv_width(model, config) +
                                   (model.gated ? 3 : 2) * mlp);
  return static_cast<double>(residual_tokens(config)) * residual_bytes(model, config) +
         tokens * split + score_bytes(model, config);
}

/// While the backward pass of a layer runs: gradients of its MLP, or of its attention.
double gradient_workspace(const Model& model, const TrainingConfig& config,
                          double attention_workspace) {
  const double tokens = static_cast<double>(config.tokens());
  const double mlp = static_cast<double>(model.ffn_hidden / config.tensor);
  const double attention =
      kElement * tokens * (2 * heads_width(model, config) + 2 * kv_width(model, config));
  return std::max(kElement * tokens * (model.gated ? 3 : 2) * mlp, attention + attention_workspace);
}

double workspace(const Model& model, const TrainingConfig& config, double attention_workspace) {
  double bytes = gradient_workspace(model, config, attention_workspace);
  if (config.recompute == Recompute::full) bytes += whole_layer_bytes(model, config);
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
  memory.workspace = workspace(model, config, attention_workspace);
  if (!stage.last) return memory;
  const double width = static_cast<double>(model.vocabulary) / config.tensor;
  memory.logits = static_cast<double>(residual_tokens(config) * model.hidden) * 2 * kElement;
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
  if (config.recompute != Recompute::full) return whole_layer_bytes(model, config);
  return kElement * static_cast<double>(residual_tokens(config) * model.hidden);  // its input
}

TrainingMemory training_memory(const Model& model, const TrainingConfig& config,
                               double attention_workspace) {
  const auto layers = static_cast<double>(most_layers(model, config));
  const double embeddings = model.tied ? 1 : 2;
  if (config.pipeline == 1) {
    return stage_memory(model, config, {layers, embeddings, 1, true}, attention_workspace);
  }
  const TrainingMemory first =
      stage_memory(model, config, {layers, 1, in_flight(config, 0), false}, attention_workspace);
  const double at_end = in_flight(config, config.pipeline - 1);
  const TrainingMemory last =
      stage_memory(model, config, {layers, 1, at_end, true}, attention_workspace);
  return first.total() > last.total() ? first : last;
}

}  // namespace ringspan::bench
