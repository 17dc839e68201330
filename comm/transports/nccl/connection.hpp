// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/nccl/api.hpp"

namespace ringspan::comm::nccl {

/// Memory of one message, to or from a rank of the world.
struct Part {
  int peer = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// One rank's NCCL communicator of the world, which never blocks: what a call has begun is done
/// once ready() says so, and no other may be made before. Used by the rank's thread, except that
/// anyone may abort() it.
class Connection {
 public:
  /// Begins to connect; the other ranks do the same.
  Connection(std::shared_ptr<const Api> api, std::shared_ptr<const cuda::Gpu> gpu,
             const UniqueId& id, int ranks, int rank);
  /// Aborts, unless finished.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// False while a call is under way, and for ever after abort(). Throws peer_failed if NCCL says
  /// that another rank is at fault, system for any other failure, also of what runs on the GPU.
  bool ready() const;

  /// Begins to queue messages in both directions as one group, none of which waits for another.
  void exchange(std::span<const Part> sends, std::span<const Part> recvs,
                const cuda::Stream& stream);

  /// Begins to end the communicator: all ranks do, once nothing is queued. Then destroy().
  void finalize();
  void destroy();

  /// Ends what is queued on the GPU wherever it is, and makes the communicator useless.
  void abort() noexcept;

 private:
  void check(Status status, const char* call) const;
  [[noreturn]] void fail(Status status, const char* call) const;

  const std::shared_ptr<const Api> api_;
  const std::shared_ptr<const cuda::Gpu> gpu_;
  mutable std::mutex mutex_;  // of the handle
  CommHandle handle_ = nullptr;
};

}  // namespace ringspan::comm::nccl
