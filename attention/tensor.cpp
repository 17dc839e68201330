// SPDX-License-Identifier: Apache-2.0
#include "attention/tensor.hpp"

#include "comm/error.hpp"

namespace ringspan::attention {

std::int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::reproducible: return comm::element_bytes(comm::Element::reproducible);
  }
  return 0;
}

comm::Element element(DType accumulator) {
  if (accumulator == DType::reproducible) return comm::Element::reproducible;
  return accumulator == DType::f64 ? comm::Element::f64 : comm::Element::f32;
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f64: return "fp64";
    case DType::f32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::f16: return "fp16";
    case DType::reproducible: return "reproducible";
  }
  return "unknown";
}

DType dtype(std::string_view text) {
  for (const DType known : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    if (name(known) == text) return known;
  }
  RINGSPAN_REQUIRE(false, "unknown dtype '", text, "'; known are fp64, fp32, bf16, fp16");
  return DType::f32;
}

namespace {

template <typename Void>
Void* advance(Void* data, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return data ? static_cast<Byte*>(data) + bytes : data;
}

}  // namespace

template <typename Void>
BasicTensorView<Void> BasicTensorView<Void>::slice_heads(std::int64_t first,
                                                         std::int64_t count) const {
  BasicTensorView part = *this;
  part.data = advance(data, first * head_stride * element_bytes(dtype));
  part.heads = count;
  return part;
}

template <typename Void>
BasicTensorView<Void> BasicTensorView<Void>::slice_tokens(std::int64_t first,
                                                          std::int64_t count) const {
  BasicTensorView part = *this;
  part.data = advance(data, first * token_stride * element_bytes(dtype));
  part.tokens = count;
  return part;
}

template struct BasicTensorView<void>;
template struct BasicTensorView<const void>;

void require_shape(std::string_view what, const ConstTensorView& view, DType dtype,
                   std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                   std::int64_t head_dim) {
  const auto shape = [](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d,
                        DType type) {
    return concat("[", b, "][", t, "][", h, "][", d, "] in ", name(type));
  };
  RINGSPAN_REQUIRE(view.batch == batch && view.tokens == tokens && view.heads == heads &&
                       view.head_dim == head_dim && view.dtype == dtype,
                   what, " is ",
                   shape(view.batch, view.tokens, view.heads, view.head_dim, view.dtype),
                   " but this rank's shard is [batch][tokens][heads][head_dim] = ",
                   shape(batch, tokens, heads, head_dim, dtype));
  RINGSPAN_REQUIRE(view.data != nullptr || view.elements() == 0, what, " has no memory");
}

Tensor::Tensor(comm::Device& device, DType dtype, std::int64_t batch, std::int64_t tokens,
               std::int64_t heads, std::int64_t head_dim)
    : buffer_(device.allocate(batch * tokens * heads * head_dim * element_bytes(dtype))),
      view_(TensorView::packed(buffer_.data(), dtype, batch, tokens, heads, head_dim)) {}

}  // namespace ringspan::attention
