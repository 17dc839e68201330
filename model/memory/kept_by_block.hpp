// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/memory_options.hpp"
#include "model/model_config.hpp"

namespace ringspan::model {

/// Rows of activations on one rank: of its shard of the sequence, where heads and the MLP's hidden
/// values are cut in the tensor group, and of its piece of that shard (see TensorGroup).
struct RankRows {
  std::int64_t shard = 0, piece = 0;
  std::int64_t tensor = 1;  // ranks of the group
};

/// Bytes of the device that a Block keeps from its forward pass for its backward pass, with a
/// schedule that saves the lse alone, as rings do, and ulysses where it resends. Of each row, in
/// elements of config.dtype:
///   x, unless offloaded                     hidden, of the piece
///   y, with nothing or the MLP recomputed   hidden, of the piece; not blockwise
///   q, k, v, likewise                       (heads + 2 kv_heads) head_dim/tensor, of the shard
///   out and lse, unless all is recomputed   heads (head_dim + 1)/tensor, of the shard
///   what goes into the activation, with     1 or (gated) 2 mlp_hidden/tensor, of the shard
///     nothing recomputed and no tiles
/// Megatron-SP's layer (LayerShare) also keeps what norms and the activation make of these; here
/// that is computed again.
std::int64_t kept_by_block(const ModelConfig& config, const MemoryOptions& memory,
                           const RankRows& rows);

}  // namespace ringspan::model
