// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "comm/buffer.hpp"
#include "comm/device.hpp"

namespace ringspan::attention {

/// reproducible: comm::ReproducibleSum, for accumulators alone.
enum class DType { f64, f32, bf16, f16, reproducible };

std::int64_t element_bytes(DType dtype);
comm::Element element(DType accumulator);  // what a device reduces it as
std::string_view name(DType dtype);        // "fp64", "fp32", "bf16", "fp16"
DType dtype(std::string_view name);        // throws invalid_argument, listing the known names

/// What partial results and travelling gradients of tensors of `dtype` are held in: fp64 for fp64,
/// else fp32.
constexpr DType accumulator(DType dtype) {
  return dtype == DType::f64 || dtype == DType::reproducible ? dtype : DType::f32;
}

/// [batch][tokens][heads][head_dim] in device memory that somebody else owns. Strides count
/// elements and are 64-bit; head_dim is contiguous. Inputs may have any strides (0 repeats);
/// outputs may not overlap themselves. Per-row values (lse, delta, row sums) are tensors with
/// head_dim 1.
template <typename Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;
  std::int64_t batch_stride = 0, token_stride = 0, head_stride = 0;

  /// Packed in the order of the axes.
  static BasicTensorView packed(Void* data, DType dtype, std::int64_t batch, std::int64_t tokens,
                                std::int64_t heads, std::int64_t head_dim) {
    return {
        data,    dtype, batch, tokens, heads, head_dim, tokens * heads * head_dim, heads * head_dim,
        head_dim};
  }

  /// A view for reading is a view for writing with the writing forgotten.
  constexpr operator BasicTensorView<const void>() const requires(!std::is_const_v<Void>) {
    return {data, dtype, batch, tokens, heads, head_dim, batch_stride, token_stride, head_stride};
  }

  constexpr std::int64_t elements() const { return batch * tokens * heads * head_dim; }
  std::int64_t bytes() const { return elements() * element_bytes(dtype); }

  /// In elements from data.
  constexpr std::int64_t offset(std::int64_t b, std::int64_t t, std::int64_t h,
                                std::int64_t d = 0) const {
    return b * batch_stride + t * token_stride + h * head_stride + d;
  }

  /// Some of the heads, or of the tokens, of this view.
  BasicTensorView slice_heads(std::int64_t first, std::int64_t count) const;
  BasicTensorView slice_tokens(std::int64_t first, std::int64_t count) const;
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

extern template struct BasicTensorView<void>;
extern template struct BasicTensorView<const void>;

/// Throws invalid_argument unless `view` has this shape and dtype; `what` names it in the message.
void require_shape(std::string_view what, const ConstTensorView& view, DType dtype,
                   std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                   std::int64_t head_dim);

/// Memory of a device, packed in the order of the axes.
class Tensor {
 public:
  Tensor() = default;
  Tensor(comm::Device& device, DType dtype, std::int64_t batch, std::int64_t tokens,
         std::int64_t heads, std::int64_t head_dim);

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }
  operator ConstTensorView() const { return view_; }
  const comm::Buffer& buffer() const { return buffer_; }

 private:
  comm::Buffer buffer_;
  TensorView view_;
};

}  // namespace ringspan::attention
