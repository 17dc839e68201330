// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/training/training_config.hpp"

namespace ringspan::bench {

/// Bytes that one GPU holds at the peak of a step, of the pipeline stage that holds most.
struct TrainingMemory {
  double parameters = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // kept for the backward passes of all micro-batches in flight
  double logits = 0;       // with their 32-bit copy, and what they are made of
  double workspace = 0;    // of the layer that runs: attention's, what is recomputed or gathered

  double total() const {
    return parameters + gradients + optimizer + activations + logits + workspace;
  }
};

/// Around the layers: Korthikanti et al. (arXiv 2205.05198), section 4.3, sbh/t (p + 4 (1 + v/h) if
/// p = 1), and the logits in 16 bits before they are copied, 2sbv/t.
/// `attention_workspace`: of AttentionCost; 0 leaves it out, which is a lower bound to prune by.
TrainingMemory training_memory(const Model& model, const TrainingConfig& config,
                               double attention_workspace = 0);

/// Bytes that one layer keeps of one micro-batch on one rank (model/memory/layer_activations.hpp).
double layer_activation_bytes(const Model& model, const TrainingConfig& config);

/// Of one layer, without biases, which are below a thousandth; and of the whole model.
std::int64_t layer_parameters(const Model& model);
std::int64_t parameters(const Model& model);

}  // namespace ringspan::bench
