// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"
#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/module.hpp"

namespace ringspan::attention::cuda {

/// Kernels::forward, backward, delta and finalize on a GPU, queued on the device's compute stream,
/// the tiles of a block one after the other. Heads of at most 256 elements of bf16 or fp16 are
/// multiplied by tensor cores, all else by the plain kernels, far more slowly.
class DeviceAttention {
 public:
  /// `device` outlives this. Throws not_available where this build has no kernels for its GPU.
  explicit DeviceAttention(comm::cuda::CudaDevice& device);

  void forward(const ForwardBlock& block, const Partial& partial);
  void backward(const BackwardBlock& block, const TensorView& dq, const TensorView& dk,
                const TensorView& dv);
  void delta(const ConstTensorView& out, const ConstTensorView& d_out, const ConstTensorView& lse,
             const ConstTensorView* sinks, const TensorView& delta, const TensorView* d_sinks);
  void finalize(const Partial& partial, const ConstTensorView* sinks, const TensorView& out,
                const TensorView& lse);

 private:
  /// For tensor cores; of one element type and largest dimension.
  struct Three {
    comm::cuda::FunctionHandle forward, backward_queries, backward_keys;
  };

  Three find_three(const char* dtype, int dim) const;
  const Three& three(DType dtype, int dim) const;
  template <typename Task>
  void launch(comm::cuda::FunctionHandle function, const comm::cuda::Grid& grid, const Task& task);

  comm::cuda::CudaDevice& device_;
  const comm::cuda::Module module_;
  const Three three_[2][3];  // [bf16, fp16][64, 128, 256]
  const comm::cuda::FunctionHandle plain_forward_, plain_backward_queries_, plain_backward_keys_,
      finalize_, delta_, sink_gradient_;
};

}  // namespace ringspan::attention::cuda
