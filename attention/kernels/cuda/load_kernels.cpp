// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/load_kernels.hpp"

#include "attention/kernels/cuda/image.hpp"
#include "comm/devices/cuda/api.hpp"
#include "comm/error.hpp"

namespace ringspan::attention::cuda {
namespace {

comm::cuda::Module load(const std::shared_ptr<const comm::cuda::Gpu>& gpu, const void* image) {
  try {
    return comm::cuda::Module(gpu, image);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_available) throw;
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

}  // namespace ringspan::attention::cuda
