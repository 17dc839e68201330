// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/pool.hpp"

#include <iterator>

#include "comm/devices/cuda/block_size.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

using cuda::size_of_block;

cuda::Address address(const std::byte* data) { return reinterpret_cast<cuda::Address>(data); }

}  // namespace

// Also of what was allocated in the order of a stream; nothing uses it any more.
Pool::~Pool() {
  const cuda::Current current(*gpu_);
  for (const auto& [data, block] : blocks_) gpu_->api().release_exportable(address(data));
}

cuda::Allocator Pool::allocator() {
  return {
      [pool = shared_from_this()](std::int64_t bytes, cuda::StreamHandle stream) {
        return pool->take(bytes, stream);
      },
      [pool = shared_from_this()](std::byte* data, std::int64_t bytes, cuda::StreamHandle stream) {
        pool->put(data, bytes, stream);
      },
      [pool = shared_from_this()](cuda::StreamHandle stream) { return pool->give_back(stream); },
      true};
}

std::shared_ptr<std::byte> Pool::allocate(std::int64_t bytes) {
  return {take(bytes, nullptr),
          [pool = shared_from_this(), bytes](std::byte* data) { pool->put(data, bytes, nullptr); }};
}

bool Pool::describe(const std::byte* address, Place& place) const {
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return false;
  const auto& [base, block] = *std::prev(after);
  if (address >= base + block.bytes) return false;
  place.base = cuda_ipc::address(base);
  place.buffer_id = block.buffer_id;
  place.handle = block.handle;
  place.bytes = block.bytes;
  place.offset = address - base;
  place.kind = HandleKind::legacy;
  place.pooled = true;
  return true;
}

std::byte* Pool::take(std::int64_t bytes, cuda::StreamHandle stream) {
  const std::int64_t size = size_of_block(bytes);
  const std::lock_guard lock(mutex_);
  std::vector<std::byte*>& free = free_[{stream, size}];
  if (free.empty()) return make(size, stream);
  std::byte* const data = free.back();
  free.pop_back();
  return data;
}

void Pool::put(std::byte* data, std::int64_t bytes, cuda::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  free_[{stream, size_of_block(bytes)}].push_back(data);
}

// Null: memory is out, and giving some back may help.
//
// The driver's pool lets the other GPUs of this process in; it exports nothing to others. What it
// gives while a graph is captured is the graph's.
std::byte* Pool::make(std::int64_t bytes, cuda::StreamHandle stream) {
  const cuda::Current current(*gpu_);
  const cuda::Api& api = gpu_->api();
  int capturing = 0;
  if (stream) gpu_->check(api.is_capturing(stream, &capturing), "cuStreamIsCapturing");
  RINGSPAN_REQUIRE(capturing == 0, "allocate: ", bytes,
                   " bytes for messages cannot be part of a graph; allocate them before");
  cuda::Address address = 0;
  if (exported_) {
    gpu_->check(api.allocate_exportable(&address, bytes), "cuMemAlloc");
  } else {
    const cuda::Status status = api.allocate(&address, bytes, stream);
    if (status == cuda::kErrorOutOfMemory) return nullptr;
    gpu_->check(status, "cuMemAllocAsync");
  }
  auto* const data = reinterpret_cast<std::byte*>(address);
  try {
    blocks_[data] = exported_ ? share(address, bytes) : Block{0, {}, bytes};
  } catch (const Error&) {
    api.release_exportable(address);
    throw;
  }
  return data;
}

bool Pool::give_back(cuda::StreamHandle stream) {
  if (exported_) return false;
  const cuda::Current current(*gpu_);
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto& [kind, free] : free_) {
    if (kind.first != stream) continue;
    for (; !free.empty(); free.pop_back(), any = true) {
      gpu_->check(gpu_->api().release(address(free.back()), stream), "cuMemFreeAsync");
      blocks_.erase(free.back());
    }
  }
  return any;
}

Pool::Block Pool::share(cuda::Address address, std::int64_t bytes) const {
  Block block{0, {}, bytes};
  gpu_->check(gpu_->api().export_memory(&block.handle, address), "cuIpcGetMemHandle");
  gpu_->check(gpu_->api().pointer_attribute(&block.buffer_id, cuda::kBufferId, address),
              "cuPointerGetAttribute");
  return block;
}

}  // namespace ringspan::comm::cuda_ipc
