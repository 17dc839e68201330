// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "attention/tensor.hpp"
#include "comm/devices/cuda/module.hpp"

namespace ringspan::attention::cuda {

/// The kernels of movement.cu, and those of attention.cu. Throws not_available where this build has
/// none for this GPU.
comm::cuda::Module load_movement(const std::shared_ptr<const comm::cuda::Gpu>& gpu);
comm::cuda::Module load_attention(const std::shared_ptr<const comm::cuda::Gpu>& gpu);

/// Whether each run of a view can be moved kVector elements at a time.
bool takes_vectors(const ConstTensorView& view);

/// Throws invalid_argument for sums that GPUs do not have.
void require_plain(const char* operation, const ConstTensorView& view);

}  // namespace ringspan::attention::cuda
