// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/training/collective_seconds.hpp"
#include "bench/training/training_config.hpp"

namespace ringspan::bench {

/// What a GPU does in one pass over one micro-batch, in seconds.
struct LayerPass {
  double products = 0, elementwise = 0;
  CollectiveCost messages = {};  // of tensor parallelism: seconds that nothing hides, all bytes

  double computing() const { return products + elementwise; }
};

/// One layer without its attention. Products run at product_seconds(); all else is fused as
/// Megatron-LM does it, and takes the memory's time for the bytes of 16-bit tensors. With tensor
/// parallelism an input is gathered before the products that split their columns, and what the
/// others give is reduced after them; backward these messages run beside products where they can
/// (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
LayerPass layer_forward(const Model& model, const comm::Cluster& cluster,
                        const TrainingConfig& config);
LayerPass layer_backward(const Model& model, const comm::Cluster& cluster,
                         const TrainingConfig& config);

/// Logits and loss, both passes.
LayerPass logits_pass(const Model& model, const comm::Cluster& cluster,
                      const TrainingConfig& config);

/// KV heads on a rank of a tensor group: replicated where there are fewer than ranks.
std::int64_t kv_heads_per_rank(const Model& model, const TrainingConfig& config);

/// Of one micro-batch on one rank, between the products: split in the tensor group or not.
std::int64_t residual_tokens(const TrainingConfig& config);

}  // namespace ringspan::bench
