// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/reachable_memory.hpp"

#include "comm/devices/cuda/pinned_memory.hpp"

namespace ringspan::comm::cuda {

Allocator reachable_memory(const std::shared_ptr<const Gpu>& gpu) {
  const auto pinned = std::make_shared<PinnedMemory>(gpu);
  return {[pinned](std::int64_t bytes, StreamHandle stream) { return pinned->take(bytes, stream); },
          [pinned](std::byte* data, std::int64_t bytes, StreamHandle stream) {
            pinned->put(data, bytes, stream);
          }};
}

}  // namespace ringspan::comm::cuda
