// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.hpp"

namespace ringspan::attention {

/// How a partial result lies in memory where it travels: out, sum and max, one behind the other, in
/// one message.
struct PartialFormat {
  Shape shape;

  std::int64_t bytes(std::int64_t tokens) const {
    const std::int64_t sums = (shape.value_dim + 1) * element_bytes(accumulator(shape));
    return shape.batch * tokens * shape.heads * (sums + element_bytes(max_dtype(shape)));
  }

  Partial block(std::byte* data, std::int64_t tokens) const {
    const auto next = [&](DType dtype, std::int64_t head_dim) {
      const auto view = TensorView::packed(data, dtype, shape.batch, tokens, shape.heads, head_dim);
      data += view.bytes();
      return view;
    };
    Partial partial;
    partial.out = next(accumulator(shape), shape.value_dim);
    partial.sum = next(accumulator(shape), 1);
    partial.max = next(max_dtype(shape), 1);
    return partial;
  }
};

}  // namespace ringspan::attention
