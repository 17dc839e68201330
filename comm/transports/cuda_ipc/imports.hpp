// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/cuda_ipc/lanes.hpp"

namespace ringspan::comm::cuda_ipc {

/// Allocations of other processes that are open in this one. They stay so, for opening takes long,
/// until there are too many or the owner has another at the same address. Within one launch a
/// process is known by its number, which no later one takes over. Used by one thread.
class Imports {
 public:
  static constexpr std::size_t kMost = 1024;

  explicit Imports(std::shared_ptr<const cuda::Gpu> gpu) : gpu_(std::move(gpu)) {}

  /// The start of the allocation in this process, for as long as it is held; let go of it when no
  /// queued work uses it. Throws system if the driver does not open it.
  std::shared_ptr<const std::byte> open(const Place& place);

  /// Closes all that nobody holds.
  void close_unused();

 private:
  struct Import {
    std::uint64_t buffer_id = 0;
    std::shared_ptr<const std::byte> memory;
    std::int64_t used = 0;  // the larger, the later
  };

  cuda::Status import(const Place& place, cuda::Address& address) const;
  void drop_oldest();

  const std::shared_ptr<const cuda::Gpu> gpu_;
  std::map<std::pair<std::int64_t, cuda::Address>, Import> imports_;  // [process, base there]
  std::int64_t uses_ = 0;
};

}  // namespace ringspan::comm::cuda_ipc
