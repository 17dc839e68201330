// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels.hpp"
#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/module.hpp"

namespace ringspan::attention::cuda {

/// Kernels::copy, accumulate, fill and merge on a GPU, queued on the device's compute stream. All
/// but fp64, fp32, bf16 and fp16 is refused with invalid_argument.
class DeviceMovement {
 public:
  /// `device` outlives this. Throws not_available where this build has no kernels for its GPU.
  explicit DeviceMovement(comm::cuda::CudaDevice& device);

  void copy(const ConstTensorView& from, const TensorView& to);
  /// Also bf16 into fp32.
  void accumulate(const ConstTensorView& from, const TensorView& to);
  void fill(const TensorView& to, double value);
  void merge(const Partial& into, const Partial& from);
  /// For a backward pass that wants out and not delta, of which out.d_out is all that counts:
  /// to = delta / |d_out|_1 sign(d_out), in bf16 as d_out, and statistics = lse, in fp32; both 0
  /// for rows that saw nothing (lse -inf). to.d_out is delta but for the rounding of one element.
  void project(const ConstTensorView& d_out, const ConstTensorView& delta,
               const ConstTensorView& lse, const TensorView& to, const TensorView& statistics);

 private:
  template <typename Task>
  void launch(comm::cuda::FunctionHandle function, std::int64_t threads, const Task& task);

  comm::cuda::CudaDevice& device_;
  const comm::cuda::Module module_;
  const comm::cuda::FunctionHandle copy_, accumulate_, fill_, merge_out_, merge_rows_, project_;
};

}  // namespace ringspan::attention::cuda
