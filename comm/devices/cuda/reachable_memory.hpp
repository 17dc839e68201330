// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/devices/cuda/memory.hpp"

namespace ringspan::comm::cuda {

/// Memory of the host that GPUs reach, in place of device memory: slow, but a device that is
/// blocking as well lets kernels of the host, and tests, look at whatever a GPU wrote.
Allocator reachable_memory(const std::shared_ptr<const Gpu>& gpu);

}  // namespace ringspan::comm::cuda
