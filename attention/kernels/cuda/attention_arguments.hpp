// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::attention::cuda {

/// Rows of a tensor view in device memory; strides in elements.
template <typename Void>
struct Strided {
  Void* data;
  std::int64_t batch_stride, token_stride, head_stride;
};

/// A Tile, for one launch: query row i of `queries` is token query_first + i * query_step.
struct TileRows {
  std::int64_t query_first, query_step, queries;
  std::int64_t key_first, key_step, keys;
  std::int64_t lo, hi;  // query i sees key j iff lo <= j - i <= hi
};

/// What one launch of a kernel of attention works on, forward or backward: one tile of a block, all
/// batches and heads. Launches of the tiles of a block follow one another on a stream, since tiles
/// may share rows. Each of q, k, v, d_out is of the kernel's element type; the rest is fp32.
struct AttentionArguments {
  Strided<const void> q, k, v;
  TileRows tile;
  std::int32_t head_dim, value_dim;
  std::int32_t heads_per_kv_head;
  /// Rows of q, k, v and d_out are multiples of 16 bytes long and start at such addresses.
  bool aligned;
  float scale;
  float softcap;  // 0: none
  // Forward: the partial result that the tile is folded into.
  Strided<void> out, max, sum;
  // Backward.
  Strided<const void> d_out, lse, delta;
  Strided<void> dq, dk, dv;  // dq in one kernel, dk and dv in the other: added to
};

}  // namespace ringspan::attention::cuda
