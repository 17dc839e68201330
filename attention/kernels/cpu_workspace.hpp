// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "attention/kernels.hpp"
#include "attention/kernels/cpu_panel.hpp"
#include "attention/kernels/host_movement.hpp"
#include "attention/tensor.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention::cpu {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Hands out cache-line aligned parts of one allocation. Without memory it only counts, which is
/// how the size is found before anything is allocated.
class Carver {
 public:
  explicit Carver(float* memory) : memory_(memory) {}

  float* take(std::int64_t floats) {
    float* part = memory_ ? memory_ + taken_ : nullptr;
    taken_ += round_up(floats, 64 / sizeof(float));
    return part;
  }
  std::int64_t taken() const { return taken_; }

 private:
  float* memory_;
  std::int64_t taken_ = 0;
};

/// Of the panels for logits of this kind.
inline PanelShape panel_shape(const InstructionSet& set, std::int64_t head_dim,
                              std::int64_t value_dim, const Logits& logits = {}) {
  PanelShape shape{
      head_dim, value_dim, round_up(head_dim, set.lanes), round_up(value_dim, set.lanes), {}};
  if (logits.softcap) shape.cap = static_cast<float>(*logits.softcap * std::numbers::log2e);
  return shape;
}

/// Packed fp32 rows in the workspace, as a view.
inline TensorView packed_rows(float* data, std::int64_t rows, std::int64_t dim,
                              std::int64_t stride) {
  return {data, DType::f32, 1, rows, 1, dim, rows * stride, stride, stride};
}

/// Packed fp32 values, one to a row, as a view.
inline TensorView packed_values(float* data, std::int64_t rows) {
  return packed_rows(data, rows, 1, 1);
}

/// Some rows of one head of one batch entry, as a view with one head and one batch entry.
template <typename Void>
BasicTensorView<Void> select(const BasicTensorView<Void>& view, std::int64_t b, std::int64_t h,
                             const Rows& rows) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  BasicTensorView<Void> selected = view;
  selected.data =
      static_cast<Byte*>(view.data) + view.offset(b, rows.first, h) * element_bytes(view.dtype);
  selected.batch = selected.heads = 1;
  selected.tokens = rows.count;
  selected.token_stride *= rows.step;
  return selected;
}

/// Rows of one head as fp32 into the workspace, with zeros behind the last column, up to `stride`.
inline void pack_rows(const ConstTensorView& rows, float* to, std::int64_t stride) {
  if (rows.head_dim < stride) std::fill_n(to, rows.tokens * stride, 0.0f);
  copy_on_host(rows, packed_rows(to, rows.tokens, rows.head_dim, stride));
}

}  // namespace ringspan::attention::cpu
