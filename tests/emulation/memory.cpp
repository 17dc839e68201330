// SPDX-License-Identifier: Apache-2.0
// Memory of the emulated driver: the host's, which the sanitizers watch.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

namespace {

constexpr std::align_val_t kAlignment{256};  // what the driver promises
constexpr int kGarbage = 0xa5;               // where a graph has released what it will use again
constexpr Status kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400;

struct Allocation {
  std::size_t bytes = 0;
  std::shared_ptr<void> captured = {};  // the memory, if it is a graph's; else null
};

struct Allocations {
  std::mutex mutex;
  std::map<Address, Allocation> device;
};

Allocations& allocations() {
  static Allocations* const all = new Allocations;
  return *all;
}

Status refusal(const char* call, StreamHandle stream) {
  if (const Status status = emulation_injected(call)) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  return stream ? kSuccess : kInvalidHandle;
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

Allocation forget(Address address) {
  const std::lock_guard lock(allocations().mutex);
  const auto found = allocations().device.extract(address);
  return found ? found.mapped() : Allocation{};
}

// A graph releases only what it has allocated.
bool may_release(Address address, const emulation::Queue& queue) {
  const std::lock_guard lock(allocations().mutex);
  const auto found = allocations().device.find(address);
  return found != allocations().device.end() && (found->second.captured || !queue.capture());
}

std::atomic<long> host_allocations{0};

}  // namespace

bool emulation::release_ordered(Address address) {
  const Allocation allocation = forget(address);
  if (allocation.bytes == 0) return false;
  if (allocation.captured) return true;
  ::operator delete(pointer(address), kAlignment);
  return true;
}

bool emulation::is_allocated(Address address) {
  const std::lock_guard lock(allocations().mutex);
  return allocations().device.contains(address);
}

extern "C" {

Status cuMemAllocAsync(Address* address, std::size_t bytes, StreamHandle stream) {
  if (const Status status = refusal("cuMemAllocAsync", stream)) return status;
  if (bytes == 0) return kInvalidValue;
  void* const memory = ::operator new(bytes, kAlignment);
  *address = reinterpret_cast<Address>(memory);
  Allocation allocation{bytes, {}};
  if (const auto capture = stream->queue->capture()) {
    capture->allocate(*address);
    allocation.captured.reset(memory, [](void* data) { ::operator delete(data, kAlignment); });
    stream->queue->push([graphs = allocation.captured] {});
  }
  const std::lock_guard lock(allocations().mutex);
  allocations().device[*address] = std::move(allocation);
  return kSuccess;
}

Status cuMemFreeAsync(Address address, StreamHandle stream) {
  if (const Status status = refusal("cuMemFreeAsync", stream)) return status;
  if (!may_release(address, *stream->queue)) {
    if (const auto capture = stream->queue->capture()) capture->invalidate();
    return kInvalidValue;
  }
  const Allocation allocation = forget(address);
  if (const auto capture = stream->queue->capture()) capture->release(address);
  stream->queue->push([address, allocation] {
    if (allocation.captured) std::memset(pointer(address), kGarbage, allocation.bytes);
    if (!allocation.captured) ::operator delete(pointer(address), kAlignment);
  });
  return kSuccess;
}

long emulation_allocations() {
  const std::lock_guard lock(allocations().mutex);
  return static_cast<long>(allocations().device.size());
}

Status cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
  if (const Status status = emulation_injected("cuMemHostAlloc")) return status;
  if (emulation::current_ordinal() < 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (emulation::forbidden_in_capture()) return emulation::kCaptureUnsupported;
  *data = ::operator new(bytes, kAlignment);
  ++host_allocations;
  return kSuccess;
}

long emulation_host_allocations() { return host_allocations; }

// Waits for all GPUs of the process.
Status cuMemFreeHost(void* data) {
  if (emulation::forbidden_in_capture()) return emulation::kCaptureUnsupported;
  emulation::wait_for_all_streams();
  --host_allocations;
  ::operator delete(data, kAlignment);
  return kSuccess;
}

Status cuMemcpyAsync(Address to, Address from, std::size_t bytes, StreamHandle stream) {
  if (const Status status = refusal("cuMemcpyAsync", stream)) return status;
  stream->queue->push([=] { std::memcpy(pointer(to), pointer(from), bytes); });
  return kSuccess;
}

Status cuMemcpy2DAsync_v2(const MemcpyRows* copy, StreamHandle stream) {
  if (const Status status = refusal("cuMemcpy2DAsync", stream)) return status;
  const MemcpyRows c = *copy;
  const bool plain = c.from_type == kUnified && c.to_type == kUnified && !c.from_x && !c.from_y &&
                     !c.to_x && !c.to_y;
  if (!plain || c.from_pitch < c.row_bytes || c.to_pitch < c.row_bytes) return kInvalidValue;
  stream->queue->push([c] {
    for (std::size_t row = 0; row < c.rows; ++row)
      std::memcpy(pointer(c.to + row * c.to_pitch), pointer(c.from + row * c.from_pitch),
                  c.row_bytes);
  });
  return kSuccess;
}

Status cuMemsetD8Async(Address address, unsigned char value, std::size_t bytes,
                       StreamHandle stream) {
  if (const Status status = refusal("cuMemsetD8Async", stream)) return status;
  stream->queue->push([=] { std::memset(pointer(address), value, bytes); });
  return kSuccess;
}

// The host reaches all memory.
Status cuPointerGetAttribute(void* value, int attribute, Address address) {
  const emulation::Mapped legacy = emulation::exportable(address);
  const emulation::Mapped known = legacy.bytes > 0 ? legacy : emulation::mapped(address);
  const auto answer = [&](const auto& found) {
    std::memcpy(value, &found, sizeof(found));
    return kSuccess;
  };
  if (attribute == kHostPointer) return answer(pointer(address));
  if (known.bytes == 0) return kInvalidValue;
  switch (attribute) {
    case kBufferId: return answer(known.id);
    case kAllowedHandles: return answer(known.kinds);
    default: return kInvalidValue;
  }
}

Status cuMemGetAddressRange_v2(Address* base, std::size_t* bytes, Address address) {
  const emulation::Mapped legacy = emulation::exportable(address);
  const emulation::Mapped known = legacy.bytes > 0 ? legacy : emulation::mapped(address);
  if (known.bytes == 0) return kInvalidValue;
  *base = known.base;
  *bytes = known.bytes;
  return kSuccess;
}

Status cuDeviceGetDefaultMemPool(PoolHandle* pool, Ordinal) {
  *pool = nullptr;
  return kSuccess;
}
Status cuMemPoolSetAttribute(PoolHandle, int, void*) { return kSuccess; }
Status cuMemPoolSetAccess(PoolHandle, const MemoryAccess*, std::size_t) { return kSuccess; }
}
