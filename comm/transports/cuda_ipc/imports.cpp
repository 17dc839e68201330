// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/imports.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/error.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

/// Another process's memory at addresses of this one, open to its GPU.
class Mapping {
 public:
  Mapping(std::shared_ptr<const cuda::Gpu> gpu, cuda::MemoryHandle memory, std::int64_t bytes)
      : gpu_(std::move(gpu)), bytes_(bytes) {
    gpu_->check(gpu_->api().reserve_addresses(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve");
    try {
      gpu_->check(gpu_->api().map_memory(address_, bytes_, 0, memory, 0), "cuMemMap");
      mapped_ = true;
      const cuda::MemoryAccess access{.device = gpu_->ordinal()};
      gpu_->check(gpu_->api().set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
    } catch (const Error&) {
      close();
      throw;
    }
  }
  ~Mapping() {
    const cuda::Current current(*gpu_);
    close();
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(address_); }

 private:
  void close() const {
    if (mapped_) gpu_->api().unmap_memory(address_, bytes_);
    gpu_->api().free_addresses(address_, bytes_);
  }

  const std::shared_ptr<const cuda::Gpu> gpu_;
  const std::size_t bytes_;
  cuda::Address address_ = 0;
  bool mapped_ = false;
};

}  // namespace

std::shared_ptr<const std::byte> Imports::open(const Place& place) {
  const auto found = imports_.find({place.process, place.base});
  if (found != imports_.end()) {
    found->second.used = ++uses_;
    if (found->second.buffer_id == place.buffer_id) return found->second.memory;
    imports_.erase(found);  // it has been freed since
  }
  make_room(place.pooled);
  const std::shared_ptr<const std::byte> memory = import(place);
  imports_[{place.process, place.base}] = {place.buffer_id, place.pooled, memory, ++uses_};
  return memory;
}

std::shared_ptr<const std::byte> Imports::import(const Place& place) {
  const cuda::Current current(*gpu_);
  return place.kind == HandleKind::legacy ? import_legacy(place) : import_mapped(place);
}

std::shared_ptr<const std::byte> Imports::import_legacy(const Place& place) {
  const auto import = [&](cuda::Address& address) {
    return gpu_->api().import_memory(&address, place.handle, cuda::kIpcLazyPeerAccess);
  };
  cuda::Address address = 0;
  cuda::Status status = import(address);
  if (status == cuda::kErrorAlreadyMapped) {  // where another allocation was
    close_unused();
    status = import(address);
  }
  gpu_->check(status, "cuIpcOpenMemHandle");
  return {reinterpret_cast<const std::byte*>(address), [gpu = gpu_](const std::byte* data) {
            const cuda::Current current(*gpu);
            gpu->api().close_import(reinterpret_cast<cuda::Address>(data));
          }};
}

std::shared_ptr<const std::byte> Imports::import_mapped(const Place& place) const {
  const bool by_descriptor = place.kind == HandleKind::descriptor;
  cuda::IpcHandle handle = place.handle;
  void* shareable = handle.bytes;
  int file = -1;
  if (by_descriptor) {
    std::memcpy(&file, handle.bytes, sizeof(file));
    file = take_(place.process, file);
    if (file < 0)
      throw Error(ErrorKind::system, concat("cuda_ipc: process ", place.process,
                                            " has closed the descriptor of its memory"));
    shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(file));
  }
  cuda::MemoryHandle memory = 0;
  const cuda::Status status = gpu_->api().import_handle(
      &memory, shareable, by_descriptor ? cuda::kDescriptorHandle : cuda::kFabricHandle);
  if (file >= 0) close(file);
  gpu_->check(status, "cuMemImportFromShareableHandle");
  const auto release = [this](const cuda::MemoryHandle* held) {  // a mapping keeps its memory
    gpu_->api().release_memory(*held);
  };
  const std::unique_ptr<const cuda::MemoryHandle, decltype(release)> held(&memory, release);
  const auto mapping = std::make_shared<const Mapping>(gpu_, memory, place.bytes);
  return {mapping, mapping->data()};
}

void Imports::close_unused() {
  std::erase_if(imports_, [](const auto& import) { return import.second.memory.use_count() == 1; });
}

// The oldest of its kind goes.
void Imports::make_room(bool pooled) {
  const auto alike = [&](const auto& import) { return import.second.pooled == pooled; };
  if (std::count_if(imports_.begin(), imports_.end(), alike) < (pooled ? kMost : kMostOutsidePools))
    return;
  imports_.erase(
      std::min_element(imports_.begin(), imports_.end(), [&](const auto& a, const auto& b) {
        return alike(a) != alike(b) ? alike(a) : a.second.used < b.second.used;
      }));
}

}  // namespace ringspan::comm::cuda_ipc
