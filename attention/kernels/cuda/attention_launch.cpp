// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/attention_launch.hpp"

#include <algorithm>
#include <cstdint>

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
int with_dim(int dim, const Visitor& visitor) {
  if (dim == 64) return visitor(std::integral_constant<int, 64>{});
  if (dim == 128) return visitor(std::integral_constant<int, 128>{});
  return visitor(std::integral_constant<int, 256>{});
}

comm::cuda::Grid grid_of(const Rows& rows, std::int64_t heads, std::int64_t batch,
                         unsigned shared_bytes) {
  const std::int64_t blocks = (rows.count + kRows - 1) / kRows;
  RINGSPAN_REQUIRE(blocks < (std::int64_t{1} << 31), "cuda kernels: a launch of ", rows.count,
                   " rows; possible are ", kRows, " * (2^31 - 1)");
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(heads), static_cast<unsigned>(batch),
          kThreads, shared_bytes};
}

int slices(int dim) {
  return with_dim(dim, [](auto d) { return kSlices<d>; });
}

comm::cuda::Grid backward_grid(int dim, const Rows& rows, const ConstTensorView& stay) {
  return grid_of(rows, stay.heads, stay.batch * slices(dim), backward_shared_bytes(dim));
}

}  // namespace

int kernel_dim(DType dtype, std::int64_t head_dim, std::int64_t value_dim) {
  const std::int64_t dim = std::max(head_dim, value_dim);
  if ((dtype != DType::bf16 && dtype != DType::f16) || dim > 256) return 0;
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

void require_launchable(const Shape& shape) {
  const int dim = kernel_dim(shape.dtype, shape.head_dim, shape.value_dim);
  if (dim == 0) return;
  constexpr std::int64_t most = 65535;
  RINGSPAN_REQUIRE(shape.heads <= most && shape.batch <= most / slices(dim),
                   "cuda kernels: ", shape.heads, " heads, batch ", shape.batch, "; in ",
                   name(shape.dtype), " and ", dim, " wide, possible are ", most,
                   " heads and a batch of ", most / slices(dim));
}

unsigned forward_shared_bytes(int dim) {
  return with_dim(dim, [](auto d) { return static_cast<int>(sizeof(ForwardMemory<d>)); });
}

unsigned backward_shared_bytes(int dim) {
  return with_dim(dim, [](auto d) { return static_cast<int>(sizeof(BackwardMemory<d>)); });
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

comm::cuda::Grid forward_grid(int dim, const ConstTensorView& q, const Tile& tile) {
  return grid_of(tile.queries, q.heads, q.batch, forward_shared_bytes(dim));
}

comm::cuda::Grid backward_queries_grid(int dim, const ConstTensorView& q, const Tile& tile) {
  return backward_grid(dim, tile.queries, q);
}

comm::cuda::Grid backward_keys_grid(int dim, const ConstTensorView& k, const Tile& tile) {
  return backward_grid(dim, tile.keys, k);
}

}  // namespace ringspan::attention::cuda
