// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/devices/cuda/device.hpp"
#include "comm/launch.hpp"

namespace ringspan::comm {

/// What a launch asks of the device of a rank that has a GPU, with what its caller brings for it.
/// On the rank's thread. No allocator: the transport's.
cuda::DeviceOptions device_options(const LaunchOptions& options,
                                   const std::shared_ptr<const cuda::Gpu>& gpu, int rank);

}  // namespace ringspan::comm
