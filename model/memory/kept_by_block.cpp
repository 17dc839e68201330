// SPDX-License-Identifier: Apache-2.0
#include "model/memory/kept_by_block.hpp"

namespace ringspan::model {

std::int64_t kept_by_block(const ModelConfig& config, const MemoryOptions& memory,
                           const RankRows& rows) {
  const bool none = memory.recompute == Recompute::none;
  const bool keeps_qkv = none || memory.recompute == Recompute::selective;
  const bool keeps_mlp = none && !memory.blockwise && memory.mlp_tiles == 1;
  const std::int64_t heads = config.heads / rows.tensor, kv_heads = config.kv_heads / rows.tensor;
  std::int64_t of_piece = 0, of_shard = 0;
  if (!memory.offload) of_piece += config.hidden;
  if (keeps_qkv && !memory.blockwise) of_piece += config.hidden;
  if (keeps_qkv) of_shard += (heads + 2 * kv_heads) * config.head_dim;
  if (memory.recompute != Recompute::full) of_shard += heads * (config.head_dim + 1);
  if (keeps_mlp) {
    of_shard += (config.variant == Variant::llama ? 2 : 1) * config.mlp_hidden / rows.tensor;
  }
  return (rows.piece * of_piece + rows.shard * of_shard) * attention::element_bytes(config.dtype);
}

}  // namespace ringspan::model
