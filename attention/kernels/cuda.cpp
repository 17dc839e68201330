// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cuda/cuda_kernels.hpp"

namespace ringspan::attention {

std::unique_ptr<Kernels> make_cuda_kernels(comm::Device& device) {
  auto* const gpu = dynamic_cast<comm::cuda::CudaDevice*>(&device);
  RINGSPAN_REQUIRE(gpu, "kernel 'cuda' runs on a GPU, which device '", device.name(),
                   "' is not; transports for GPUs are nccl and cuda_ipc");
  return std::make_unique<cuda::CudaKernels>(*gpu);
}

}  // namespace ringspan::attention
