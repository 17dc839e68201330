// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/devices/cuda/device.hpp"

namespace ringspan::attention::cudnn {

/// Device memory that grows, in the order of the compute stream.
class Scratch {
 public:
  explicit Scratch(comm::cuda::CudaDevice& device) : device_(device) {}

  std::byte* take(std::int64_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = device_.allocate_workspace(bytes);
    return buffer_.data();
  }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  comm::cuda::CudaDevice& device_;
  comm::Buffer buffer_;
};

}  // namespace ringspan::attention::cudnn
