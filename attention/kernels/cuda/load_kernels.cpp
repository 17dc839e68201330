// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/load_kernels.hpp"

#include <algorithm>

#include "attention/kernels/cuda/image.hpp"
#include "attention/kernels/cuda/movement.hpp"
#include "comm/devices/cuda/api.hpp"
#include "comm/error.hpp"

namespace ringspan::attention::cuda {
namespace {

comm::cuda::Module load(const std::shared_ptr<const comm::cuda::Gpu>& gpu, const void* image) {
  try {
    return comm::cuda::Module(gpu, image);
  } catch (const Error& error) {
    const std::string reason =
        kernel_targets().empty()
            ? "this build has none, because no CUDA toolkit was found; install one "
              "(scripts/setup --cuda) and configure again"
            : concat("this build has those for ", kernel_targets(), " and newer: ", error.what());
    throw Error(ErrorKind::not_available,
                concat("no kernels for ", comm::cuda::device_name(gpu->api(), gpu->ordinal()), "; ",
                       reason));
  }
}

}  // namespace

comm::cuda::Module load_movement(const std::shared_ptr<const comm::cuda::Gpu>& gpu) {
  return load(gpu, movement_image());
}

comm::cuda::Module load_attention(const std::shared_ptr<const comm::cuda::Gpu>& gpu) {
  return load(gpu, attention_image());
}

bool takes_vectors(const ConstTensorView& view) {
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

void require_plain(const char* operation, const ConstTensorView& view) {
  RINGSPAN_REQUIRE(view.dtype != DType::reproducible, operation,
                   ": GPUs have no reproducible sums; choose fp64, fp32, bf16 or fp16");
}

}  // namespace ringspan::attention::cuda
