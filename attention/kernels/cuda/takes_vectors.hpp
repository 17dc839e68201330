// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "attention/kernels/cuda/movement.hpp"

namespace ringspan::attention::cuda {

/// Whether each run of a view can be moved kVector elements at a time.
inline bool takes_vectors(const ConstTensorView& view) {
  const auto alignment = std::min<std::int64_t>(16, kVector * element_bytes(view.dtype));
  const auto whole = [](std::int64_t count, std::int64_t stride) {
    return count == 1 || stride % kVector == 0;
  };
  return view.head_dim % kVector == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(alignment) ==
             0 &&
         whole(view.batch, view.batch_stride) && whole(view.tokens, view.token_stride) &&
         whole(view.heads, view.head_stride);
}

}  // namespace ringspan::attention::cuda
