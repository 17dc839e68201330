// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"
#include "attention/tensor.hpp"

namespace ringspan::attention {

/// A gradient that a rank adds up where it is: in the caller's tensor if that is an accumulator,
/// else beside it.
class GradientSum {
 public:
  /// For a gradient of this shape whose caller may want it in shape.dtype. Allocates if it must.
  void reserve(comm::Device& device, const Shape& shape, std::int64_t tokens, std::int64_t heads,
               std::int64_t head_dim) {
    dtype_ = accumulator(shape);
    if (dtype_ == shape.dtype || beside_.buffer()) return;
    beside_ = Tensor(device, dtype_, shape.batch, tokens, heads, head_dim);
  }

  /// Begins with zeros. `result`: where the sum is wanted.
  void begin(Kernels& kernels, const TensorView& result) {
    result_ = result;
    in_use_ = result.dtype == dtype_ ? result : beside_.view();
    kernels.fill(in_use_, 0);
  }
  const TensorView& view() const { return in_use_; }
  void end(Kernels& kernels) const {
    if (in_use_.data != result_.data) kernels.copy(in_use_, result_);
  }

 private:
  DType dtype_ = DType::f32;
  Tensor beside_;
  TensorView result_, in_use_;
};

}  // namespace ringspan::attention
