// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/attention_launch.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "attention/kernels/cuda/attention_backward.cuh"
#include "comm/error.hpp"

namespace ringspan::attention::cuda {
namespace {

template <typename Void>
Strided<Void> strided(const BasicTensorView<Void>& view) {
  return {view.data, view.batch_stride, view.token_stride, view.head_stride};
}

/// Whether every row is made of whole vectors of 16 bytes at such addresses.
bool aligned(const ConstTensorView& view) {
  const auto whole = [](std::int64_t elements) { return elements % 8 == 0; };
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && whole(view.head_dim) &&
         whole(view.batch_stride) && whole(view.token_stride) && whole(view.head_stride);
}

/// What forward and backward have in common.
template <typename Block>
AttentionArguments arguments_of(const Block& block, const Tile& tile) {
  AttentionArguments arguments{};
  arguments.q = strided(block.q), arguments.k = strided(block.k), arguments.v = strided(block.v);
  arguments.tile = {tile.queries.first,
                    tile.queries.step,
                    tile.queries.count,
                    tile.keys.first,
                    tile.keys.step,
                    tile.keys.count,
                    tile.lo,
                    tile.hi};
  arguments.head_dim = static_cast<std::int32_t>(block.q.head_dim);
  arguments.value_dim = static_cast<std::int32_t>(block.v.head_dim);
  arguments.heads_per_kv_head = static_cast<std::int32_t>(block.q.heads / block.k.heads);
  arguments.aligned = aligned(block.q) && aligned(block.k) && aligned(block.v);
  arguments.scale = static_cast<float>(block.logits.scale);
  arguments.softcap = static_cast<float>(block.logits.softcap.value_or(0));
  return arguments;
}

/// Calls visitor with the dimension as a constant.
template <typename Visitor>
std::size_t with_dim(int dim, const Visitor& visitor) {
  if (dim == 64) return visitor(std::integral_constant<int, 64>{});
  if (dim == 128) return visitor(std::integral_constant<int, 128>{});
  return visitor(std::integral_constant<int, 256>{});
}

Launch launch_of(const Rows& rows, std::int64_t heads, std::int64_t batch,
                 std::size_t shared_bytes) {
  const std::int64_t blocks = (rows.count + kRows - 1) / kRows;
  RINGSPAN_REQUIRE(blocks < (std::int64_t{1} << 31) && heads <= 65535 && batch <= 65535,
                   "cuda kernels: a launch of " + std::to_string(rows.count) + " rows, " +
                       std::to_string(heads) + " heads, batch " + std::to_string(batch) +
                       "; possible are 65535 heads and a batch of 65535 (32767 above 128 wide)");
  return {
      {static_cast<unsigned>(blocks), static_cast<unsigned>(heads), static_cast<unsigned>(batch)},
      kThreads,
      shared_bytes};
}

Launch backward_launch(int dim, const Rows& rows, const ConstTensorView& stay) {
  const std::size_t bytes = with_dim(dim, [](auto d) { return sizeof(BackwardMemory<d>); });
  const std::size_t slices = with_dim(dim, [](auto d) { return std::size_t{kSlices<d>}; });
  return launch_of(rows, stay.heads, stay.batch * static_cast<std::int64_t>(slices), bytes);
}

}  // namespace

int kernel_dim(const Shape& shape) {
  const std::int64_t dim = std::max(shape.head_dim, shape.value_dim);
  RINGSPAN_REQUIRE(shape.dtype == DType::bf16 || shape.dtype == DType::f16,
                   "cuda kernels: attention of " + std::string(name(shape.dtype)) +
                       "; they multiply bf16 and fp16");
  RINGSPAN_REQUIRE(dim <= 256, "cuda kernels: heads of " + std::to_string(dim) +
                                   " elements; at most 256 are possible");
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

AttentionArguments forward_arguments(const ForwardBlock& block, const Partial& partial,
                                     const Tile& tile) {
  AttentionArguments arguments = arguments_of(block, tile);
  arguments.out = strided(partial.out);
  arguments.max = strided(partial.max);
  arguments.sum = strided(partial.sum);
  return arguments;
}

AttentionArguments backward_arguments(const BackwardBlock& block, const TensorView& dq,
                                      const TensorView& dk, const TensorView& dv,
                                      const Tile& tile) {
  AttentionArguments arguments = arguments_of(block, tile);
  arguments.aligned = arguments.aligned && aligned(block.d_out);
  arguments.d_out = strided(block.d_out);
  arguments.lse = strided(block.lse), arguments.delta = strided(block.delta);
  arguments.dq = strided(dq), arguments.dk = strided(dk), arguments.dv = strided(dv);
  return arguments;
}

Launch forward_launch(int dim, const ConstTensorView& q, const Tile& tile) {
  const std::size_t bytes = with_dim(dim, [](auto d) { return sizeof(ForwardMemory<d>); });
  return launch_of(tile.queries, q.heads, q.batch, bytes);
}

Launch backward_queries_launch(int dim, const ConstTensorView& q, const Tile& tile) {
  return backward_launch(dim, tile.queries, q);
}

Launch backward_keys_launch(int dim, const ConstTensorView& k, const Tile& tile) {
  return backward_launch(dim, tile.keys, k);
}

}  // namespace ringspan::attention::cuda
