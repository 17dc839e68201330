// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.hpp"
#include "attention/tensor.hpp"

namespace ringspan::attention {

/// Keys and values of some tokens, or their gradients.
struct KvBlock {
  TensorView k;  // [batch][tokens][kv_heads][head_dim]
  TensorView v;  // [batch][tokens][kv_heads][value_dim]
};

/// The same, to be read.
struct KvView {
  ConstTensorView k, v;
};

/// How such a block lies in memory: all of k, then all of v, so that both travel as one message.
struct KvFormat {
  Shape shape;
  DType dtype;  // of the elements: shape.dtype for keys and values, its accumulator for gradients

  std::int64_t k_bytes(std::int64_t tokens) const { return row_bytes(shape.head_dim) * tokens; }
  std::int64_t bytes(std::int64_t tokens) const {
    return row_bytes(shape.head_dim + shape.value_dim) * tokens;
  }

  KvBlock block(std::byte* data, std::int64_t tokens) const {
    const auto tensor = [&](std::int64_t offset, std::int64_t dim) {
      return TensorView::packed(data + offset, dtype, shape.batch, tokens, shape.kv_heads, dim);
    };
    return {tensor(0, shape.head_dim), tensor(k_bytes(tokens), shape.value_dim)};
  }
  KvView view(std::byte* data, std::int64_t tokens) const {
    const KvBlock readable = block(data, tokens);
    return {readable.k, readable.v};
  }

 private:
  std::int64_t row_bytes(std::int64_t dim) const {
    return shape.batch * shape.kv_heads * dim * element_bytes(dtype);
  }
};

}  // namespace ringspan::attention
