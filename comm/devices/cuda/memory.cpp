// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/memory.hpp"

#include <algorithm>
#include <utility>

#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

Allocator pool_of(const Gpu& gpu) {
  return {[&gpu](std::int64_t bytes, StreamHandle stream) {
            Address address = 0;
            gpu.check(gpu.api().allocate(&address, bytes, stream), "cuMemAllocAsync");
            return reinterpret_cast<std::byte*>(address);
          },
          [&gpu](std::byte* data, std::int64_t, StreamHandle stream) {
            gpu.check(gpu.api().release(reinterpret_cast<Address>(data), stream), "cuMemFreeAsync");
          },
          {},
          true};
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
      poison_(poison),
      pinned_(compute_->shared_gpu()) {}

Memory::~Memory() {
  ignoring_failure([this] { release_aside(); });
}

Buffer Memory::allocate(std::int64_t bytes, bool counted, const std::function<void()>& settle) {
  RINGSPAN_REQUIRE(bytes >= 0, "allocate: ", bytes, " bytes; a size is not negative");
  const Current current(gpu_);
  release_aside();
  const bool captured = compute_->capturing();
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
    device_[data] = {bytes, captured};
  }
  return Buffer(data, bytes, [data, bytes, counted, memory = shared_from_this()] {
    if (counted) memory->counters_.subtract(bytes);
    ignoring_failure([&] { memory->release(data); });
  });
}

Buffer Memory::allocate_values(std::int64_t bytes, bool counted) {
  RINGSPAN_REQUIRE(bytes >= 0, "allocate_values: ", bytes, " bytes; a size is not negative");
  std::byte* const data = pinned_.take(bytes, compute_->handle());
  if (poison_) std::fill_n(data, bytes, std::byte{0xff});
  if (counted) counters_.add(bytes);
  {
    const std::lock_guard lock(mutex_);
    values_[data] = {bytes};
  }
  return Buffer(data, bytes, [data, bytes, counted, memory = shared_from_this()] {
    if (counted) memory->counters_.subtract(bytes);
    ignoring_failure([&] { memory->release_values(data); });
  });
}

bool Memory::holds(const std::byte* address) const { return lies_in(device_, address); }

bool Memory::holds_values(const std::byte* address) const { return lies_in(values_, address); }

bool Memory::lies_in(const Blocks& blocks, const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [first, block] = *std::prev(after);
  return address < first + std::max<std::int64_t>(block.bytes, 1);
}

// A quiet NaN in fp64, fp32, bf16 and fp16 alike.
void Memory::fill_with_nan(std::byte* data, std::int64_t bytes) const {
  if (bytes == 0) return;
  gpu_.check(gpu_.api().fill(reinterpret_cast<Address>(data), 0xff, bytes, compute_->handle()),
             "cuMemsetD8Async");
}

// A graph releases only what it has allocated itself; the rest waits until it has been captured.
void Memory::release(std::byte* data) {
  const Current current(gpu_);
  {
    const std::lock_guard lock(mutex_);
    aside_.insert(device_.extract(data));
  }
  release_aside();
}

// The allocator may be the caller's: it may let go of other memory here, and have a lock of its
// own.
void Memory::release_aside() {
  while (const Blocks::node_type next = next_aside()) {
    const Current current(gpu_);
    if (poison_) fill_with_nan(next.key(), next.mapped().bytes);
    allocator_.release(next.key(), next.mapped().bytes, compute_->handle());
  }
}

Memory::Blocks::node_type Memory::next_aside() {
  const std::lock_guard lock(mutex_);
  if (aside_.empty()) return {};
  const bool capturing = compute_->capturing();
  const auto next = std::find_if(aside_.begin(), aside_.end(), [=](const auto& block) {
    return !capturing || block.second.captured;
  });
  return next == aside_.end() ? Blocks::node_type() : aside_.extract(next);
}

void Memory::release_values(std::byte* data) {
  std::int64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    bytes = values_.extract(data).mapped().bytes;
  }
  pinned_.put(data, bytes, compute_->handle());
}

}  // namespace ringspan::comm::cuda
