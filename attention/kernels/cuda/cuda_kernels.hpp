// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/cuda/attention_launch.hpp"
#include "attention/kernels/cuda/device_attention.hpp"
#include "attention/kernels/cuda/gpu_kernels.hpp"
#include "attention/kernels/families.hpp"

namespace ringspan::attention::cuda {

/// Attention on a GPU by kernels of our own, those of attention.cu and movement.cu. All is queued
/// on the compute stream; nothing waits and nothing is allocated.
class CudaKernels : public GpuKernels {
 public:
  explicit CudaKernels(comm::cuda::CudaDevice& device) : GpuKernels(device), attention_(device) {}

  void prepare(const Shape& shape) override {
    require_plain_sums("cuda", shape);
    require_launchable(shape);
  }
  std::int64_t workspace_bytes() const override { return 0; }
  bool rounds_weights(const Shape& shape) const override {
    return kernel_dim(shape.dtype, shape.head_dim, shape.value_dim) > 0;
  }

  void forward(const ForwardBlock& block, const Partial& partial) override {
    attention_.forward(block, partial);
  }
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv) override {
    attention_.backward(block, dq, dk, dv);
  }
  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta,
             const TensorView* d_sinks) override {
    attention_.delta(out, d_out, lse, sinks, delta, d_sinks);
  }
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse) override {
    attention_.finalize(partial, sinks, out, lse);
  }

 private:
  DeviceAttention attention_;
};

}  // namespace ringspan::attention::cuda
