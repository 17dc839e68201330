// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/tensor.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {

/// How many elements lie one after the other in two tensors of one shape, so that runs are as long
/// as can be. In one axis after another, rows follow each other without a gap, or there is but one.
struct RunAxes {
  std::int64_t batch, tokens, heads, run;
};

inline RunAxes joined(const ConstTensorView& a, const ConstTensorView& b) {
  RunAxes axes{a.batch, a.tokens, a.heads, a.head_dim};
  const auto join = [&](std::int64_t& count, std::int64_t a_stride, std::int64_t b_stride) {
    if (count != 1 && (a_stride != axes.run || b_stride != axes.run)) return false;
    axes.run *= count;
    count = 1;
    return true;
  };
  join(axes.heads, a.head_stride, b.head_stride) &&
      join(axes.tokens, a.token_stride, b.token_stride) &&
      join(axes.batch, a.batch_stride, b.batch_stride);
  return axes;
}

/// Throws invalid_argument, naming the operation, unless the shapes are equal.
inline void require_same_shape(const char* operation, const ConstTensorView& from,
                               const ConstTensorView& to) {
  RINGSPAN_REQUIRE(from.batch == to.batch && from.tokens == to.tokens && from.heads == to.heads &&
                       from.head_dim == to.head_dim,
                   operation, ": the source is [", from.batch, "][", from.tokens, "][", from.heads,
                   "][", from.head_dim, "] but the destination [", to.batch, "][", to.tokens, "][",
                   to.heads, "][", to.head_dim, "]; they must be equal");
}

inline void require_one_accumulator(const ConstTensorView& from, const ConstTensorView& to) {
  RINGSPAN_REQUIRE(from.dtype == to.dtype && to.dtype == accumulator(to.dtype),
                   "accumulate: ", name(from.dtype), " into ", name(to.dtype),
                   "; both must be the same accumulator");
}

}  // namespace ringspan::attention
