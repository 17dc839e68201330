// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/devices/cuda/module.hpp"

namespace ringspan::attention::cuda {

/// The kernels of movement.cu, and those of attention.cu. Throws not_available where this build has
/// none for this GPU, system if loading them fails otherwise.
comm::cuda::Module load_movement(const std::shared_ptr<const comm::cuda::Gpu>& gpu);
comm::cuda::Module load_attention(const std::shared_ptr<const comm::cuda::Gpu>& gpu);

/// Why no GPU of this driver can have kernels of this build: there are none, or the driver is for
/// an older CUDA than compiled them. Empty if neither.
std::string why_not_for_driver(const comm::cuda::Api& cuda);

}  // namespace ringspan::attention::cuda
