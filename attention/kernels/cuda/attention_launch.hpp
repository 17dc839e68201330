// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "attention/kernels.hpp"
#include "attention/kernels/cuda/attention_arguments.hpp"
#include "attention/kernels/cuda/warp.cuh"

namespace ringspan::attention::cuda {

/// How a kernel is to be launched.
struct Launch {
  Index3 grid;
  unsigned threads;
  std::size_t shared_bytes;
};

/// The largest dimension of the kernels to take for this shape: 64, 128 or 256. Throws
/// invalid_argument for what they cannot do: wider heads, other types than bf16 and fp16.
int kernel_dim(const Shape& shape);

/// What the kernels get for one tile of a block; views as of Kernels::forward and backward.
AttentionArguments forward_arguments(const ForwardBlock& block, const Partial& partial,
                                     const Tile& tile);
AttentionArguments backward_arguments(const BackwardBlock& block, const TensorView& dq,
                                      const TensorView& dk, const TensorView& dv, const Tile& tile);

/// Of one tile of a block with these queries and keys. A tile larger than the grids of CUDA (2^31
/// blocks along x, 65535 along y and z) throws invalid_argument.
Launch forward_launch(int kernel_dim, const ConstTensorView& q, const Tile& tile);
Launch backward_queries_launch(int kernel_dim, const ConstTensorView& q, const Tile& tile);
Launch backward_keys_launch(int kernel_dim, const ConstTensorView& k, const Tile& tile);

}  // namespace ringspan::attention::cuda
