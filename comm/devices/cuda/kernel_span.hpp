// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "comm/devices/cuda/device.hpp"
#include "comm/nvtx.hpp"

namespace ringspan::comm::cuda {

/// What is queued on a device's compute stream as long as this lives: one kernel of its timeline,
/// one range of a profiler. The name outlives it.
class KernelSpan {
 public:
  KernelSpan(const CudaDevice& device, std::string_view name);
  ~KernelSpan();
  KernelSpan(const KernelSpan&) = delete;
  KernelSpan& operator=(const KernelSpan&) = delete;

 private:
  const NvtxRange range_;
  const CudaDevice& device_;
  const std::string_view name_;
  const Timeline::Mark start_;
};

}  // namespace ringspan::comm::cuda
