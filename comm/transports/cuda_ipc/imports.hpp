// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/streams/offer.hpp"

namespace ringspan::comm::cuda_ipc {

using streams::HandleKind;
using streams::Place;

/// Allocations of other processes that are open in this one. They stay so, for opening takes long,
/// until there are too many or the owner has another at the same address: of those that are not of
/// a pool few, for what its owner has freed lives as long as it is open here. Within one launch a
/// process is known by its number, which no later one takes over. Used by one thread.
class Imports {
 public:
  static constexpr std::ptrdiff_t kMost = 1024, kMostOutsidePools = 32;

  /// The descriptor of that number of another process, as one of this; -1: there is none.
  using TakeDescriptor = std::function<int(std::int64_t process, int number)>;

  explicit Imports(std::shared_ptr<const cuda::Gpu> gpu, TakeDescriptor take = {})
      : gpu_(std::move(gpu)), take_(std::move(take)) {}

  /// The start of the allocation in this process, for as long as it is held; let go of it when no
  /// queued work uses it. Throws system if the driver does not open it.
  std::shared_ptr<const std::byte> open(const Place& place);

  /// Closes all that nobody holds.
  void close_unused();

 private:
  struct Import {
    std::uint64_t buffer_id = 0;
    bool pooled = false;
    std::shared_ptr<const std::byte> memory;
    std::int64_t used = 0;  // the larger, the later
  };

  std::shared_ptr<const std::byte> import(const Place& place);
  std::shared_ptr<const std::byte> import_legacy(const Place& place);
  std::shared_ptr<const std::byte> import_mapped(const Place& place) const;
  void make_room(bool pooled);

  const std::shared_ptr<const cuda::Gpu> gpu_;
  const TakeDescriptor take_;
  std::map<std::pair<std::int64_t, cuda::Address>, Import> imports_;  // [process, base there]
  std::int64_t uses_ = 0;
};

}  // namespace ringspan::comm::cuda_ipc
