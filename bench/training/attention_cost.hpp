// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bench/ask/point.hpp"
#include "bench/run/measure.hpp"
#include "bench/training/training_config.hpp"

namespace ringspan::bench {

/// One pass of attention of one layer over one micro-batch; bytes are the most that a rank sends.
struct AttentionPass {
  double seconds = 0;
  double exposed_seconds = 0;  // of them, what messages cost
  std::int64_t bytes = 0, inter_node_bytes = 0;
};

struct AttentionCost {
  AttentionPass forward, backward;
  std::int64_t workspace_bytes = 0;  // while it runs, beyond its inputs, outputs and gradients
};

/// The attention of one group of sequence-parallel ranks, to be simulated once for each pass. Its
/// nodes have as many ranks as the group has on one. `schedule` as sweeps know it; on one rank it
/// does not matter.
Point attention_point(const Model& model, const comm::Cluster& cluster,
                      const TrainingConfig& config, const std::string& schedule,
                      const std::string& kernel, const std::string& pass);

AttentionPass attention_pass(const Measurement& measurement);

/// By the backward pass, which needs more than the forward.
std::int64_t attention_workspace(const Point& point, const Measurement& backward);

/// Attention whose scores are materialised, on one rank of each tensor group: two batched products
/// forward and four backward over all pairs, masked or not, softmax and dropout between them.
AttentionCost materialised_attention(const Model& model, const comm::Gpu& gpu,
                                     const TrainingConfig& config);

}  // namespace ringspan::bench
