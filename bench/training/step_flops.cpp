// SPDX-License-Identifier: Apache-2.0
#include "bench/training/step_flops.hpp"

#include "bench/training/training_memory.hpp"

namespace ringspan::bench {
namespace {

/// Forward, of one token in the products of one layer.
double layer_products(const Model& model, const FlopsConvention& convention) {
  const auto hidden = static_cast<double>(model.hidden);
  if (convention.gpt_layers) return 24 * hidden * hidden;
  const std::int64_t norms = 2 * model.hidden;
  return 2 * static_cast<double>(layer_parameters(model) - norms);
}

/// Forward, of one token in one layer: q.k and p v with every token that counts.
double layer_attention(const Model& model, const TrainingConfig& config,
                       const FlopsConvention& convention) {
  return 4 * static_cast<double>(model.heads * model.head_dim) *
         static_cast<double>(config.sequence_length) * convention.causal_share;
}

}  // namespace

double step_flops(const Model& model, const TrainingConfig& config,
                  const FlopsConvention& convention) {
  const double attention = layer_attention(model, config, convention);
  const double layer = layer_products(model, convention) + attention;
  const double logits = convention.vocabulary ? 2 * static_cast<double>(model.vocabulary) *
                                                    static_cast<double>(model.hidden)
                                              : 0;
  double again = 0;
  if (convention.recompute && config.recompute == Recompute::full) again = layer;
  if (convention.recompute && config.recompute == Recompute::selective) again = attention;
  const auto layers = static_cast<double>(model.layers);
  const auto tokens = static_cast<double>(config.global_batch * config.sequence_length);
  return tokens * (layers * (3 * layer + again) + 3 * logits);
}

double flops_per_second(const Model& model, const TrainingConfig& config,
                        const FlopsConvention& convention, double step_seconds) {
  return step_flops(model, config, convention) /
         (step_seconds * static_cast<double>(config.gpus()));
}

}  // namespace ringspan::bench
