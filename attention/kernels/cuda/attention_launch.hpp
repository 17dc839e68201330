// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"
#include "attention/kernels/cuda/attention_arguments.hpp"
#include "comm/devices/cuda/module.hpp"

namespace ringspan::attention::cuda {

/// The largest dimension of the kernels to take: 64, 128 or 256; 0 for what they cannot multiply:
/// wider heads, other types than bf16 and fp16.
int kernel_dim(DType dtype, std::int64_t head_dim, std::int64_t value_dim);

/// Throws invalid_argument for more heads or batch entries than the grids of CUDA have room for
/// (65535 along y and z).
void require_launchable(const Shape& shape);

/// What a block of threads needs of shared memory, in bytes.
unsigned forward_shared_bytes(int kernel_dim);
unsigned backward_shared_bytes(int kernel_dim);

/// What the kernels get for one tile of a block; views as of Kernels::forward and backward.
AttentionArguments forward_arguments(const ForwardBlock& block, const Partial& partial,
                                     const Tile& tile);
AttentionArguments backward_arguments(const BackwardBlock& block, const TensorView& dq,
                                      const TensorView& dk, const TensorView& dv, const Tile& tile);

/// Of one tile of a block with these queries and keys, of a launchable shape. A tile of more than
/// 2^31 - 1 blocks of threads throws invalid_argument.
comm::cuda::Grid forward_grid(int kernel_dim, const ConstTensorView& q, const Tile& tile);
comm::cuda::Grid backward_queries_grid(int kernel_dim, const ConstTensorView& q, const Tile& tile);
comm::cuda::Grid backward_keys_grid(int kernel_dim, const ConstTensorView& k, const Tile& tile);

}  // namespace ringspan::attention::cuda
