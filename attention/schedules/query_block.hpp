// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.hpp"
#include "attention/tensor.hpp"

namespace ringspan::attention {

/// What a backward pass needs to know of some queries; shapes as in BackwardBlock.
template <typename View>
struct BasicQueryBlock {
  View q, d_out;
  View lse, delta;
};
using QueryBlock = BasicQueryBlock<TensorView>;
using QueryView = BasicQueryBlock<ConstTensorView>;  // to be read

/// How such a block lies in memory where it travels: one tensor behind the other, in one message;
/// the accumulators lse and delta first, so that all are aligned.
struct QueryFormat {
  Shape shape;

  std::int64_t bytes(std::int64_t tokens) const {
    const std::int64_t accumulators = 2 * element_bytes(accumulator(shape.dtype));
    const std::int64_t rows = (shape.head_dim + shape.value_dim) * element_bytes(shape.dtype);
    return shape.batch * tokens * shape.heads * (accumulators + rows);
  }

  QueryBlock block(std::byte* data, std::int64_t tokens) const {
    const auto next = [&](DType dtype, std::int64_t head_dim) {
      const auto view = TensorView::packed(data, dtype, shape.batch, tokens, shape.heads, head_dim);
      data += view.bytes();
      return view;
    };
    QueryBlock block;
    block.lse = next(accumulator(shape.dtype), 1);
    block.delta = next(accumulator(shape.dtype), 1);
    block.q = next(shape.dtype, shape.head_dim);
    block.d_out = next(shape.dtype, shape.value_dim);
    return block;
  }
  QueryView view(std::byte* data, std::int64_t tokens) const {
    const QueryBlock readable = block(data, tokens);
    return {readable.q, readable.d_out, readable.lse, readable.delta};
  }
};

}  // namespace ringspan::attention
