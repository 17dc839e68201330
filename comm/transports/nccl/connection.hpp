// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/devices/cuda/memory.hpp"
#include "comm/transports/nccl/api.hpp"
#include "comm/transports/streams/connection.hpp"
#include "comm/transports/streams/lanes.hpp"

namespace ringspan::comm::nccl {

using streams::Lanes;
using streams::Message;
using streams::Operation;

/// One rank's NCCL communicator of the world, which never blocks: what a call has begun is done
/// once ready() says so, and no other may be made before. A batch is one group, so that none of its
/// messages waits for another.
class Connection final : public streams::Connection {
 public:
  /// Begins to connect; the other ranks do the same.
  Connection(std::shared_ptr<const Api> api, std::shared_ptr<const cuda::Gpu> gpu,
             std::shared_ptr<Lanes> lanes, const UniqueId& id, int ranks, int rank, bool strict);
  /// Aborts, unless finished.
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool ready() const override;
  std::optional<Error> announce(Operation& operation) override;
  void open(const cuda::Stream& stream) override;
  void begin(Operation& operation, const cuda::Stream& stream) override;
  void end(Operation& operation, const cuda::Stream& stream) override;
  std::string_view why_not_captured() const override { return {}; }
  void finalize() override;
  void destroy() override;
  /// An abort waits for all kernels of NCCL that are queued.
  bool idle() const override { return !aborting_ || *abort_over_; }
  void abort() noexcept override;

 private:
  /// Memory of one message, to or from a rank of the world.
  struct Part {
    int peer = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };

  Slice packing(const Slice& slice) const;
  void exchange(std::span<const Part> sends, std::span<const Part> recvs,
                const cuda::Stream& stream);
  void check(Status status, const char* call) const;

  const std::shared_ptr<const Api> api_;
  const std::shared_ptr<const cuda::Gpu> gpu_;
  const bool strict_;
  std::shared_ptr<cuda::Memory> staging_;  // in the order of the transfer stream
  Buffer token_sent_, token_received_;     // what an empty message carries
  std::vector<Slice> packed_;              // [send] of the batch under way: NCCL may queue it later
  std::vector<Slice> unpacked_;  // [recv] of the batch under way, what its rows come from; or empty
  mutable std::mutex mutex_;     // of the handle
  CommHandle handle_ = nullptr;
  std::atomic<bool> aborting_{false};
  const std::shared_ptr<std::atomic<bool>> abort_over_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ringspan::comm::nccl
