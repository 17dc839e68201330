// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/cuda/device_movement.hpp"

namespace ringspan::attention::cuda {

/// Kernels on a GPU, as far as they move data; subclasses say what attention is.
class GpuKernels : public Kernels {
 public:
  explicit GpuKernels(comm::cuda::CudaDevice& device) : movement_(device) {}

  void copy(const ConstTensorView& from, const TensorView& to) override {
    movement_.copy(from, to);
  }
  void accumulate(const ConstTensorView& from, const TensorView& to) override {
    movement_.accumulate(from, to);
  }
  void fill(const TensorView& to, double value) override { movement_.fill(to, value); }
  void merge(const Partial& into, const Partial& from) override { movement_.merge(into, from); }

 protected:
  DeviceMovement movement_;
};

}  // namespace ringspan::attention::cuda
