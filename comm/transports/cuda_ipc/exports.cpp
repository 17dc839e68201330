// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/exports.hpp"

#include <unistd.h>

#include <cstring>

namespace ringspan::comm::cuda_ipc {
namespace {

int attribute(const cuda::Gpu& gpu, int which, cuda::Address at) {
  int value = 0;
  return gpu.api().pointer_attribute(&value, which, at) == cuda::kSuccess ? value : 0;
}

// Memory of the host, or that CUDA does not know, has none.
bool find_allocation(const cuda::Gpu& gpu, const Slice& slice, Place& place) {
  const cuda::Address first = reinterpret_cast<cuda::Address>(slice.data());
  cuda::Address base = 0;
  std::size_t bytes = 0;
  if (slice.stride < 0 || gpu.api().address_range(&base, &bytes, first) != cuda::kSuccess ||
      gpu.api().pointer_attribute(&place.buffer_id, cuda::kBufferId, first) != cuda::kSuccess)
    return false;
  place.base = base;
  place.bytes = static_cast<std::int64_t>(bytes);
  place.offset = static_cast<std::int64_t>(first - base);
  return place.offset + (slice.rows - 1) * slice.stride + slice.row_bytes <= place.bytes;
}

/// A descriptor of this process that another one may take, until this goes.
std::shared_ptr<const void> keep_open(int descriptor) {
  return {new int(descriptor), [](const int* open) {
            close(*open);
            delete open;
          }};
}

bool export_mapped(const cuda::Gpu& gpu, int kind, void* shareable, cuda::Address at) {
  cuda::MemoryHandle memory = 0;
  const cuda::Api& api = gpu.api();
  if (api.retain_memory(&memory, reinterpret_cast<void*>(at)) != cuda::kSuccess) return false;
  const bool exported = api.export_handle(shareable, memory, kind, 0) == cuda::kSuccess;
  api.release_memory(memory);
  return exported;
}

}  // namespace

std::shared_ptr<const void> export_allocation(const cuda::Gpu& gpu, const Slice& slice,
                                              bool descriptors, Place& place) {
  const cuda::Current current(gpu);
  if (!find_allocation(gpu, slice, place)) return nullptr;
  const int kinds = attribute(gpu, cuda::kAllowedHandles, place.base);
  if (int file = -1; descriptors && (kinds & cuda::kDescriptorHandle) != 0 &&
                     export_mapped(gpu, cuda::kDescriptorHandle, &file, place.base)) {
    place.kind = HandleKind::descriptor;
    std::memcpy(place.handle.bytes, &file, sizeof(file));
    return keep_open(file);
  }
  if ((kinds & cuda::kFabricHandle) != 0 &&
      export_mapped(gpu, cuda::kFabricHandle, place.handle.bytes, place.base)) {
    place.kind = HandleKind::fabric;
    return std::make_shared<const int>(0);  // nothing to hold
  }
  return nullptr;
}

}  // namespace ringspan::comm::cuda_ipc
