// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/devices/cuda/memory.hpp"
#include "comm/transports/streams/offer.hpp"

namespace ringspan::comm::cuda_ipc {

using streams::HandleKind;
using streams::Place;

/// Device memory that other ranks can be let into. Blocks that have been released are kept for the
/// same stream: freeing may wait for the GPU, nobody may free what another process has open, and
/// after a failure, which ends waits out of order, another GPU may still be about to use what this
/// one has let go of. They go back to the driver with the pool, or, if they are not exported, when
/// memory is out and all that was queued has run without a failure.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// `exported`: the others are other processes.
  Pool(std::shared_ptr<const cuda::Gpu> gpu, bool exported)
      : gpu_(std::move(gpu)), exported_(exported) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  cuda::Allocator allocator();
  /// Exported, and not in the order of any stream: the last owner lets go of it when no queued work
  /// uses it.
  std::shared_ptr<std::byte> allocate(std::int64_t bytes);

  /// Fills in of which allocation `address` is part, and where in it. False: of none.
  bool describe(const std::byte* address, Place& place) const;

 private:
  using Kind = std::pair<cuda::StreamHandle, std::int64_t>;  // size
  struct Block {
    std::uint64_t buffer_id;
    cuda::IpcHandle handle;
    std::int64_t bytes;
  };

  std::byte* take(std::int64_t bytes, cuda::StreamHandle stream);
  void put(std::byte* data, std::int64_t bytes, cuda::StreamHandle stream);
  std::byte* make(std::int64_t bytes, cuda::StreamHandle stream);
  bool give_back(cuda::StreamHandle stream);
  Block share(cuda::Address address, std::int64_t bytes) const;

  const std::shared_ptr<const cuda::Gpu> gpu_;
  const bool exported_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  std::map<Kind, std::vector<std::byte*>> free_;
};

}  // namespace ringspan::comm::cuda_ipc
