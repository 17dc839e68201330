// SPDX-License-Identifier: Apache-2.0
// No attention at all: the time of a schedule's messages, with the packing that belongs to them.
// Results are left as they were.
#include "attention/kernels/cuda/gpu_kernels.hpp"
#include "attention/kernels/families.hpp"
#include "attention/kernels/host_movement.hpp"
#include "attention/kernels/no_attention.hpp"

namespace ringspan::attention {
namespace {

class NullKernels final : public NoAttention<Kernels> {
 public:
  void copy(const ConstTensorView& from, const TensorView& to) override { copy_on_host(from, to); }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    accumulate_on_host(from, to);
  }
  void fill(const TensorView& to, double value) override { fill_on_host(to, value); }
};

using NullOnGpu = NoAttention<cuda::GpuKernels>;

}  // namespace

std::unique_ptr<Kernels> make_null_kernels(comm::Device& device) {
  if (device.cluster()) return make_modelled_movement(device);  // there is no data to move
  auto* const gpu = dynamic_cast<comm::cuda::CudaDevice*>(&device);
  if (gpu && !device.host_reaches_memory()) return std::make_unique<NullOnGpu>(*gpu);
  return std::make_unique<NullKernels>();
}

}  // namespace ringspan::attention
