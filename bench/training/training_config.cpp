// SPDX-License-Identifier: Apache-2.0
#include "bench/training/training_config.hpp"

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// The multiple of `unit` nearest to `value`, at least one.
std::int64_t nearest_multiple(std::int64_t value, std::int64_t unit) {
  return std::max<std::int64_t>((value + unit / 2) / unit, 1) * unit;
}

class Rules {
 public:
  template <typename... Parts>
  bool require(bool kept, const Parts&... rule) {
    if (!kept) broken_.push_back(concat(rule...));
    return kept;
  }
  bool positive(std::int64_t value, std::string_view name) {
    return require(value >= 1, name, " is ", value, "; it must be at least 1");
  }
  std::vector<std::string> broken() && { return std::move(broken_); }

 private:
  std::vector<std::string> broken_;
};

bool check_sizes(Rules& rules, const Model& model, const TrainingConfig& config) {
  bool kept = rules.positive(model.kv_heads, "the number of KV heads");
  kept &= rules.positive(config.sequence_length, "the sequence");
  kept &= rules.positive(config.global_batch, "the global batch");
  kept &= rules.positive(config.micro_batch, "the micro-batch");
  kept &= rules.positive(config.tensor, "the tensor-parallel degree");
  kept &= rules.positive(config.ulysses, "the Ulysses degree");
  kept &= rules.positive(config.ring, "the ring degree");
  kept &= rules.positive(config.data, "the data-parallel degree");
  kept &= rules.positive(config.pipeline, "the pipeline degree");
  kept &= rules.positive(config.pipeline_interleave, "the chunks of a pipeline stage");
  kept &= rules.require(config.zero_stage >= 0 && config.zero_stage <= 3, "the ZeRO stage is ",
                        config.zero_stage, "; it must be 0, 1, 2 or 3");
  kept &= rules.require(config.gradient_bytes == 2 || config.gradient_bytes == 4, "gradients have ",
                        config.gradient_bytes, " bytes each; they must have 2 or 4");
  return kept;
}

void check_heads(Rules& rules, const Model& model, const TrainingConfig& config) {
  const std::int64_t tensor = config.tensor, kv_heads = model.kv_heads;
  rules.require(model.heads % tensor == 0, "tensor-parallel degree ", tensor, ": ", model.heads,
                " heads are not a multiple of it");
  rules.require(kv_heads % tensor == 0 || tensor % kv_heads == 0, "tensor-parallel degree ", tensor,
                ": it must divide the ", kv_heads, " KV heads, or be a multiple of them");
  rules.require(model.ffn_hidden % tensor == 0, "tensor-parallel degree ", tensor, ": the MLP's ",
                model.ffn_hidden, " columns are not a multiple of it");
}

void check_layers(Rules& rules, const Model& model, const TrainingConfig& config) {
  const std::int64_t chunks = std::int64_t{config.pipeline} * config.pipeline_interleave;
  rules.require(chunks <= model.layers, "pipeline degree ", config.pipeline, ": ", chunks,
                " chunks for ", model.layers, " layers; at most ",
                model.layers / config.pipeline_interleave, " stages have layers");
  rules.require(config.pipeline_interleave == 1 || config.pipeline > 1,
                "chunks of a pipeline stage: there is one stage; they must be 1");
  rules.require(config.pipeline_interleave == 1 || config.micro_batches() % config.pipeline == 0,
                "chunks of a pipeline stage: the ", config.micro_batches(),
                " micro-batches must be a multiple of the ", config.pipeline, " stages");
}

}  // namespace

std::int64_t most_layers(const Model& model, const TrainingConfig& config) {
  return (model.layers + config.pipeline - 1) / config.pipeline;
}

std::vector<std::string> broken_rules(const Model& model, const comm::Cluster& cluster,
                                      const TrainingConfig& config) {
  Rules rules;
  if (!check_sizes(rules, model, config)) return std::move(rules).broken();
  const std::int64_t replica_batch = config.data * config.micro_batch;
  rules.require(config.global_batch % replica_batch == 0, "global batch ", config.global_batch,
                ": it must be a multiple of ", config.data, " replicas times ", config.micro_batch,
                " sequences, such as ", nearest_multiple(config.global_batch, replica_batch));
  rules.require(config.gpus() <= cluster.gpus(), "degrees multiply to ", config.gpus(),
                " GPUs; cluster '", cluster.name, "' has ", cluster.gpus());
  rules.require(model.experts == 1, model.name, ": a mixture of ", model.experts,
                " experts; only dense models are modelled");
  rules.require(config.attention == AttentionKind::flash || config.sequence_parallel() == 1,
                "materialised scores: they need whole sequences, not ", config.sequence_parallel(),
                " ranks for one");
  check_heads(rules, model, config);
  check_layers(rules, model, config);
  return std::move(rules).broken();
}

}  // namespace ringspan::bench
