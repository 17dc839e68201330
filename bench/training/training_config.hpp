// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/ask/models.hpp"
#include "comm/cluster.hpp"

namespace ringspan::bench {

/// What a backward pass computes again instead of keeping it. Selective: the core of attention
/// (Korthikanti et al., arXiv 2205.05198), which a flash kernel always does by itself.
enum class Recompute { none, selective, full };

/// Flash attention keeps no scores; materialised keeps them, [queries][keys] of every head.
enum class AttentionKind { flash, materialised };

/// How one training step is spread over a cluster. Ranks are ordered from low to high: tensor,
/// ulysses, ring, data, pipeline (with ring_inner the ring comes before ulysses). Tensors have 16
/// bits, master weights and moments of Adam 32.
struct TrainingConfig {
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 1;  // sequences of a step
  std::int64_t micro_batch = 1;   // of them at a time on each data-parallel replica
  int tensor = 1, ulysses = 1, ring = 1, data = 1, pipeline = 1;
  bool ring_inner = false;
  bool tensor_sequence_parallel = true;  // norms and residuals are split in tensor groups, too
  int pipeline_interleave = 1;           // model chunks of each pipeline stage
  int zero_stage = 0;                    // shards over all ranks with the same parameters
  Recompute recompute = Recompute::none;
  AttentionKind attention = AttentionKind::flash;
  bool dropout = false;
  bool tiled_logits = false;          // the loss is computed in tiles whose logits are not kept
  bool overlap_data_parallel = true;  // gradients and parameters move beside the computing
  std::int64_t gradient_bytes = 4;    // per parameter: they are accumulated in so many

  /// A flash kernel's own recomputing is in its backward pass.
  bool recomputes_scores() const {
    return recompute == Recompute::selective && attention == AttentionKind::materialised;
  }
  std::int64_t sequence_parallel() const { return std::int64_t{ulysses} * ring; }
  std::int64_t replicas() const { return sequence_parallel() * data; }  // of each parameter
  std::int64_t gpus() const { return replicas() * tensor * pipeline; }
  std::int64_t micro_batches() const { return global_batch / (data * micro_batch); }
  /// Of one micro-batch on one rank before tensor parallelism; the most that any rank has.
  std::int64_t tokens() const {
    return micro_batch * ((sequence_length + sequence_parallel() - 1) / sequence_parallel());
  }
};

/// Of the stage that has most. If layers are not a multiple of the stages, the first and the last,
/// which have embeddings and logits, are the first to have one less.
std::int64_t most_layers(const Model& model, const TrainingConfig& config);

/// Why this cannot be done, a line per rule, each with the nearest legal choice where there is one.
/// Whether it fits into memory is another question.
std::vector<std::string> broken_rules(const Model& model, const comm::Cluster& cluster,
                                      const TrainingConfig& config);

}  // namespace ringspan::bench
