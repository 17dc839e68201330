// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/gpu_side.hpp"

#include <algorithm>
#include <bit>

#include "comm/devices/cuda/copy.hpp"

namespace ringspan::comm::processes {

Buffer GpuSide::take(std::int64_t bytes) {
  reuse();
  const auto fits = [=](const Buffer& buffer) {
    return buffer.bytes() >= bytes && buffer.sole_owner();
  };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found != free_.end()) return *found;
  const auto size = std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 64)));
  return free_.emplace_back(device_.allocate_staging(static_cast<std::int64_t>(size)));
}

void GpuSide::pack(const Buffer& message, const Slice& from) {
  cuda::queue_copy(device_.compute(), slice(message, 0, from.bytes()), from);
}

void GpuSide::unpack(const Slice& to, const Buffer& message) {
  cuda::queue_copy(device_.compute(), to, slice(message, 0, to.bytes()));
  used_.push_back({message, queued()});
}

std::shared_ptr<const cuda::Event> GpuSide::queued() const {
  auto event = std::make_shared<const cuda::Event>(device_.compute().shared_gpu());
  device_.compute().record(*event);
  return event;
}

void GpuSide::reuse() {
  while (!used_.empty() && used_.front().until->done()) used_.pop_front();
}

}  // namespace ringspan::comm::processes
