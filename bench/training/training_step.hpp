// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/training/attention_cost.hpp"
#include "bench/training/training_config.hpp"
#include "bench/training/training_memory.hpp"

namespace ringspan::bench {

/// Where the time of a step goes, in seconds; the parts add up.
struct StepSeconds {
  double products = 0;     // of matrices: linear layers and logits
  double attention = 0;    // less its exposed messages
  double elementwise = 0;  // norms, residuals, activations, RoPE, loss
  double recompute = 0;    // all that is computed a second time
  double optimizer = 0;
  double attention_messages = 0;  // exposed, as all below
  double tensor_messages = 0;
  double data_messages = 0;
  double pipeline_messages = 0;
  double pipeline_bubble = 0;

  double messages() const {
    return attention_messages + tensor_messages + data_messages + pipeline_messages;
  }
  double total() const {
    return products + attention + elementwise + recompute + optimizer + messages() +
           pipeline_bubble;
  }
};

/// What one GPU sends in a step, the most that any does.
struct StepBytes {
  double in_node = 0, between_nodes = 0;
};

/// A prediction.
struct TrainingStep {
  StepSeconds seconds;
  StepBytes bytes;
  TrainingMemory memory;
  double tokens_per_second = 0;

  double exposed_share() const { return seconds.messages() / seconds.total(); }
  /// Over the network if anything moves over it, else inside the node.
  double slowest_link_bytes() const {
    return bytes.between_nodes > 0 ? bytes.between_nodes : bytes.in_node;
  }
};

/// Throws invalid_argument with the first broken rule. `attention` is what attention_point() says
/// when it is simulated, or materialised_attention().
TrainingStep training_step(const Model& model, const comm::Cluster& cluster,
                           const TrainingConfig& config, const AttentionCost& attention);

}  // namespace ringspan::bench
