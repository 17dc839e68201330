// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/pinned_memory.hpp"

#include <iterator>
#include <utility>

#include "comm/devices/cuda/block_size.hpp"
#include "comm/devices/cuda/host_clock.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr double kMoment = 2;  // seconds, in which a stream ends that is about to

}  // namespace

PinnedMemory::~PinnedMemory() {
  try {
    const Current current(*gpu_);
    wait_on_host([this] { return free_unused(); }, kMoment);
    for (const Block& block : aside_) gpu_->api().release_host(block.data);  // waits by itself
  } catch (const Error&) {  // a GPU that has failed, or does not end
  }
}

std::byte* PinnedMemory::take(std::int64_t bytes, StreamHandle stream) {
  const std::int64_t size = size_of_block(bytes);
  const Current current(*gpu_);
  const std::lock_guard lock(mutex_);
  RINGSPAN_REQUIRE(!capturing(stream), "allocate: ", bytes,
                   " bytes of the host cannot be part of a graph; allocate them before");
  record();
  std::list<Block>& free = free_[size];
  if (!free.empty() && free.front().is_unused()) {
    std::byte* const data = free.front().data;
    free.pop_front();
    return data;
  }
  void* data = nullptr;
  gpu_->check(gpu_->api().allocate_host(&data, size, kHostAllocPortable), "cuMemHostAlloc");
  return static_cast<std::byte*>(data);
}

void PinnedMemory::put(std::byte* data, std::int64_t bytes, StreamHandle stream) {
  const Current current(*gpu_);
  const std::lock_guard lock(mutex_);
  aside_.push_back({data, size_of_block(bytes), stream, nullptr});
  record();
}

bool PinnedMemory::capturing(StreamHandle stream) const {
  int status = 0;
  gpu_->check(gpu_->api().is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

bool PinnedMemory::free_unused() {
  for (auto& [size, free] : free_) {
    for (; !free.empty(); free.pop_front()) {
      if (!free.front().is_unused()) return false;
      gpu_->api().release_host(free.front().data);
    }
  }
  return true;
}

// Null: it has come to its end.
std::unique_ptr<const Event> PinnedMemory::end_of(StreamHandle stream) const {
  const Status status = gpu_->api().stream_query(stream);
  if (status != kErrorNotReady) {
    gpu_->check(status, "cuStreamQuery");
    return nullptr;
  }
  auto event = std::make_unique<const Event>(gpu_);
  gpu_->check(gpu_->api().event_record(event->handle(), stream), "cuEventRecord");
  return event;
}

// A stream that is captured can be asked nothing, and an event would become part of the graph.
void PinnedMemory::record() {
  for (auto block = aside_.begin(); block != aside_.end();) {
    const auto next = std::next(block);
    if (!capturing(block->stream)) {
      block->unused = end_of(block->stream);
      std::list<Block>& free = free_[block->size];
      free.splice(free.end(), aside_, block);
    }
    block = next;
  }
}

}  // namespace ringspan::comm::cuda
