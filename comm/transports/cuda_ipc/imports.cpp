// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/imports.hpp"

#include <algorithm>

namespace ringspan::comm::cuda_ipc {

std::shared_ptr<const std::byte> Imports::open(const Place& place) {
  const auto found = imports_.find({place.process, place.base});
  if (found != imports_.end()) {
    found->second.used = ++uses_;
    if (found->second.buffer_id == place.buffer_id) return found->second.memory;
    imports_.erase(found);  // it has been freed since
  }
  if (imports_.size() >= kMost) drop_oldest();
  cuda::Address address = 0;
  cuda::Status status = import(place, address);
  if (status == cuda::kErrorAlreadyMapped) {  // where another allocation was
    close_unused();
    status = import(place, address);
  }
  gpu_->check(status, "cuIpcOpenMemHandle");
  const auto close = [gpu = gpu_](const std::byte* data) {
    const cuda::Current current(*gpu);
    gpu->api().close_import(reinterpret_cast<cuda::Address>(data));
  };
  const std::shared_ptr<const std::byte> memory(reinterpret_cast<const std::byte*>(address), close);
  imports_[{place.process, place.base}] = {place.buffer_id, memory, ++uses_};
  return memory;
}

cuda::Status Imports::import(const Place& place, cuda::Address& address) const {
  const cuda::Current current(*gpu_);
  return gpu_->api().import_memory(&address, place.handle, cuda::kIpcLazyPeerAccess);
}

void Imports::close_unused() {
  std::erase_if(imports_, [](const auto& import) { return import.second.memory.use_count() == 1; });
}

void Imports::drop_oldest() {
  imports_.erase(
      std::min_element(imports_.begin(), imports_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

}  // namespace ringspan::comm::cuda_ipc
