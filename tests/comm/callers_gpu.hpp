// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/gpu_resources.hpp"

namespace ringspan::comm::test {

/// What a trainer has on one GPU of the emulation: a stream, and memory that is freed in its order.
class CallersGpu {
 public:
  explicit CallersGpu(int ordinal)
      : gpu_(std::make_shared<cuda::Gpu>(cuda::load_cuda(), ordinal)), stream_(gpu_) {}

  const cuda::Stream& stream() const { return stream_; }

  GpuResources resources() {
    return {stream_.handle(),
            [this](std::int64_t bytes, void* stream) { return take(bytes, stream); },
            [this](void* memory, std::int64_t, void* stream) { put(memory, stream); }};
  }

  /// Queues it on the stream, without anything of Ringspan's.
  void queue(std::function<void()> kernel) const {
    auto owned = std::make_unique<std::function<void()>>(std::move(kernel));
    const auto run = [](void* data) {
      const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(data));
      (*own)();
    };
    gpu_->check(gpu_->api().launch_host_function(stream_.handle(), run, owned.get()), "kernel");
    owned.release();  // to the stream
  }

  bool holds(const void* memory) const {
    const std::lock_guard lock(mutex_);
    return live_.contains(memory);
  }
  std::size_t live() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }
  int taken() const { return taken_; }
  /// Each call came with the stream.
  bool on_its_stream() const { return on_its_stream_; }

 private:
  static constexpr std::align_val_t kAlignment{256};

  void* take(std::int64_t bytes, void* stream) {
    const std::lock_guard lock(mutex_);
    on_its_stream_ = on_its_stream_ && stream == stream_.handle();
    ++taken_;
    return const_cast<void*>(*live_.insert(::operator new(bytes, kAlignment)).first);
  }

  void put(void* memory, void* stream) {
    {
      const std::lock_guard lock(mutex_);
      on_its_stream_ = on_its_stream_ && stream == stream_.handle() && live_.erase(memory) == 1;
    }
    queue([memory] { ::operator delete(memory, kAlignment); });
  }

  const std::shared_ptr<const cuda::Gpu> gpu_;
  const cuda::Stream stream_;
  mutable std::mutex mutex_;
  std::set<const void*> live_;
  int taken_ = 0;
  bool on_its_stream_ = true;
};

}  // namespace ringspan::comm::test
