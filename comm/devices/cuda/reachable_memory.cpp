// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/reachable_memory.hpp"

#include <chrono>
#include <list>
#include <mutex>
#include <thread>

namespace ringspan::comm::cuda {
namespace {

/// What was released on a stream that may still use it.
struct Released {
  Released(const std::shared_ptr<const Gpu>& gpu, void* memory) : unused(gpu), data(memory) {}

  Event unused;
  void* data;
};

class ReleasedMemory {
 public:
  explicit ReleasedMemory(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}
  // What a stream that does not end still uses is left to it.
  ~ReleasedMemory() {
    const auto given_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (free_unused(); !released_.empty() && std::chrono::steady_clock::now() < given_up;
         free_unused())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  void add(void* data, StreamHandle stream) {
    const std::lock_guard lock(mutex_);
    released_.emplace_back(gpu_, data);
    gpu_->check(gpu_->api().event_record(released_.back().unused.handle(), stream),
                "cuEventRecord");
    free_unused();
  }

 private:
  void free_unused() noexcept {
    while (!released_.empty() &&
           gpu_->api().event_query(released_.front().unused.handle()) == kSuccess) {
      gpu_->api().release_host(released_.front().data);
      released_.pop_front();
    }
  }

  const std::shared_ptr<const Gpu> gpu_;
  std::mutex mutex_;
  std::list<Released> released_;
};

}  // namespace

Allocator reachable_memory(const std::shared_ptr<const Gpu>& gpu) {
  const auto released = std::make_shared<ReleasedMemory>(gpu);
  return {[gpu](std::int64_t bytes, StreamHandle) {
            void* data = nullptr;
            gpu->check(gpu->api().allocate_host(&data, bytes, kHostAllocPortable),
                       "cuMemHostAlloc");
            return static_cast<std::byte*>(data);
          },
          [released](std::byte* data, std::int64_t, StreamHandle stream) {
            released->add(data, stream);
          }};
}

}  // namespace ringspan::comm::cuda
