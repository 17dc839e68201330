// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention/kernels/cudnn/tile_graph.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention::cudnn {

/// The rows of a tile, of a tensor with all of them.
template <typename Void>
BasicTensorView<Void> rows_of(BasicTensorView<Void> view, const Rows& rows) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  view.data =
      static_cast<Byte*>(view.data) + rows.first * view.token_stride * element_bytes(view.dtype);
  view.tokens = rows.count;
  view.token_stride *= rows.step;
  return view;
}

/// cuDNN loads 16 bytes at once.
inline bool aligned(const ConstTensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.head_dim % 8 == 0 &&
         view.batch_stride % 8 == 0 && view.token_stride % 8 == 0 && view.head_stride % 8 == 0;
}

inline TileShape::Strides strides(const ConstTensorView& view) {
  return {view.batch_stride, view.token_stride, view.head_stride};
}

}  // namespace ringspan::attention::cudnn
