// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/kernels.hpp"
#include "attention/tensor.hpp"

namespace ringspan::attention {

/// Gradients of some tokens, such as dk and dv.
using GradientBlock = std::vector<TensorView>;

/// How such a block lies in memory where it travels: one tensor behind the other, in accumulators.
struct GradientFormat {
  struct Part {
    std::int64_t heads, head_dim;
  };
  std::string_view name;  // of the messages
  std::int64_t batch;
  DType dtype;
  std::vector<Part> parts;

  static GradientFormat of_kv(const Shape& shape) {
    return {"kv_gradients",
            shape.batch,
            accumulator(shape),
            {{shape.kv_heads, shape.head_dim}, {shape.kv_heads, shape.value_dim}}};
  }
  static GradientFormat of_q(const Shape& shape) {
    return {"q_gradients", shape.batch, accumulator(shape), {{shape.heads, shape.head_dim}}};
  }

  std::int64_t bytes(std::int64_t tokens) const {
    std::int64_t elements = 0;
    for (const Part& part : parts) elements += part.heads * part.head_dim;
    return batch * tokens * elements * element_bytes(dtype);
  }

  GradientBlock block(std::byte* data, std::int64_t tokens) const {
    GradientBlock block;
    for (const auto& [heads, head_dim] : parts) {
      block.push_back(TensorView::packed(data, dtype, batch, tokens, heads, head_dim));
      data += block.back().bytes();
    }
    return block;
  }
};

}  // namespace ringspan::attention
