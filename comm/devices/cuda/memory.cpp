// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/memory.hpp"

#include <algorithm>
#include <utility>

#include "comm/devices/cuda/host_clock.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr double kMoment = 1;  // seconds

Allocator pool_of(const Gpu& gpu) {
  return {[&gpu](std::int64_t bytes, StreamHandle stream) {
            Address address = 0;
            gpu.check(gpu.api().allocate(&address, bytes, stream), "cuMemAllocAsync");
            return reinterpret_cast<std::byte*>(address);
          },
          [&gpu](std::byte* data, std::int64_t, StreamHandle stream) {
            gpu.check(gpu.api().release(reinterpret_cast<Address>(data), stream), "cuMemFreeAsync");
          }};
}

// What goes wrong where nobody can be told has a cause that surfaces at the next synchronize.
template <typename Call>
void ignoring_failure(const Call& call) noexcept {
  try {
    call();
  } catch (const Error&) {
  }
}

}  // namespace

Memory::Memory(std::shared_ptr<const Stream> compute, Allocator allocator, bool poison)
    : compute_(std::move(compute)),
      gpu_(compute_->gpu()),
      allocator_(allocator.allocate ? std::move(allocator) : pool_of(gpu_)),
      poison_(poison) {}

// Device memory has just been let go of in the order of the stream, which takes it a moment; what a
// stream that does not end still uses is left to it.
Memory::~Memory() {
  const auto all_free = [this] {
    free_retired();
    return retired_.empty();
  };
  ignoring_failure([&] { wait_on_host(all_free, kMoment); });
}

Buffer Memory::allocate(std::int64_t bytes, bool counted, const std::function<void()>& settle) {
  RINGSPAN_REQUIRE(bytes >= 0, "allocate: ", bytes, " bytes; a size is not negative");
  const Current current(gpu_);
  const auto take = [&] {
    return allocator_.allocate(std::max<std::int64_t>(bytes, 1), compute_->handle());
  };
  std::byte* data = take();
  if (!data && settle && allocator_.give_back) {
    settle();
    if (allocator_.give_back(compute_->handle())) data = take();
  }
  if (!data)
    throw Error(ErrorKind::system, concat("allocate: no ", bytes, " bytes of device memory"));
  if (poison_) fill_with_nan(data, bytes);
  if (counted) counters_.add(bytes);
  {
    const std::lock_guard lock(mutex_);
    device_[data] = bytes;
  }
  return Buffer(data, bytes, [data, bytes, counted, memory = shared_from_this()] {
    if (counted) memory->counters_.subtract(bytes);
    ignoring_failure([&] { memory->release(data, bytes); });
  });
}

Buffer Memory::allocate_values(std::int64_t bytes, bool counted) {
  RINGSPAN_REQUIRE(bytes >= 0, "allocate_values: ", bytes, " bytes; a size is not negative");
  const Current current(gpu_);
  void* address = nullptr;
  gpu_.check(
      gpu_.api().allocate_host(&address, std::max<std::int64_t>(bytes, 1), kHostAllocPortable),
      "cuMemHostAlloc");
  auto* const data = static_cast<std::byte*>(address);
  if (poison_) std::fill_n(data, bytes, std::byte{0xff});
  if (counted) counters_.add(bytes);
  {
    const std::lock_guard lock(mutex_);
    values_[data] = bytes;
  }
  ignoring_failure([this] { free_retired(); });
  return Buffer(data, bytes, [data, bytes, counted, memory = shared_from_this()] {
    if (counted) memory->counters_.subtract(bytes);
    ignoring_failure([&] { memory->retire(data); });
  });
}

bool Memory::holds(const std::byte* address) const { return lies_in(device_, address); }

bool Memory::holds_values(const std::byte* address) const { return lies_in(values_, address); }

bool Memory::lies_in(const Sizes& sizes, const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  const auto after = sizes.upper_bound(address);
  if (after == sizes.begin()) return false;
  const auto& [first, bytes] = *std::prev(after);
  return address < first + std::max<std::int64_t>(bytes, 1);
}

// A quiet NaN in fp64, fp32, bf16 and fp16 alike.
void Memory::fill_with_nan(std::byte* data, std::int64_t bytes) const {
  if (bytes == 0) return;
  gpu_.check(gpu_.api().fill(reinterpret_cast<Address>(data), 0xff, bytes, compute_->handle()),
             "cuMemsetD8Async");
}

void Memory::release(std::byte* data, std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    device_.erase(data);
  }
  const Current current(gpu_);
  if (poison_) fill_with_nan(data, bytes);
  allocator_.release(data, bytes, compute_->handle());
}

// Freeing host memory waits for nothing that is queued, so what may be in use is freed later.
void Memory::retire(std::byte* data) {
  const Current current(gpu_);
  const std::lock_guard lock(mutex_);
  values_.erase(data);
  if (compute_->idle()) {
    gpu_.api().release_host(data);
    return;
  }
  retired_.emplace_back(compute_->shared_gpu(), data);
  compute_->record(retired_.back().unused);
}

void Memory::free_retired() {
  const Current current(gpu_);
  const std::lock_guard lock(mutex_);
  while (!retired_.empty() && retired_.front().unused.done()) {
    gpu_.api().release_host(retired_.front().data);
    retired_.pop_front();
  }
}

}  // namespace ringspan::comm::cuda
