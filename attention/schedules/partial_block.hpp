// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.hpp"

namespace ringspan::attention {

/// How a partial result lies in memory where it travels: out, max and sum, one behind the other, in
/// one message.
struct PartialFormat {
  Shape shape;

  std::int64_t bytes(std::int64_t tokens) const {
    return shape.batch * tokens * shape.heads * (shape.value_dim + 2) *
           element_bytes(accumulator(shape.dtype));
  }

  Partial block(std::byte* data, std::int64_t tokens) const {
    const auto next = [&](std::int64_t head_dim) {
      const auto view = TensorView::packed(data, accumulator(shape.dtype), shape.batch, tokens,
                                           shape.heads, head_dim);
      data += view.bytes();
      return view;
    };
    Partial partial;
    partial.out = next(shape.value_dim);
    partial.max = next(1);
    partial.sum = next(1);
    return partial;
  }
};

}  // namespace ringspan::attention
