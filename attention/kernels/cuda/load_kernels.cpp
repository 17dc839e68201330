// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/load_kernels.hpp"

#include <string>

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
    std::string reason = why_not_for_driver(gpu->api());
    if (reason.empty())
      reason = concat("this build has those for ", kernel_targets(), " and newer: ", error.what());
    throw Error(ErrorKind::not_available,
                concat("no kernels for ", comm::cuda::device_name(gpu->api(), gpu->ordinal()), "; ",
                       reason));
  }
}

}  // namespace

std::string why_not_for_driver(const comm::cuda::Api& cuda) {
  if (kernel_targets().empty())
    return "this build has none, because no CUDA toolkit was found; install one (scripts/setup "
           "--cuda) and configure again";
  int driver = 0;
  comm::cuda::check(cuda, cuda.driver_version(&driver), "cuDriverGetVersion");
  if (driver / 1000 >= kernel_toolkit()) return {};
  return concat("those of this build are by CUDA ", kernel_toolkit(),
                ", and need a driver for that; this one is for CUDA ", driver / 1000, ".",
                driver % 1000 / 10);
}

comm::cuda::Module load_movement(const std::shared_ptr<const comm::cuda::Gpu>& gpu) {
  return load(gpu, movement_image());
}

comm::cuda::Module load_attention(const std::shared_ptr<const comm::cuda::Gpu>& gpu) {
  return load(gpu, attention_image());
}

}  // namespace ringspan::attention::cuda
