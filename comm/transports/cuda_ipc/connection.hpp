// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/transports/cuda_ipc/imports.hpp"
#include "comm/transports/cuda_ipc/pool.hpp"
#include "comm/transports/streams/connection.hpp"
#include "comm/transports/streams/lanes.hpp"

namespace ringspan::comm::cuda_ipc {

using streams::Lanes;
using streams::Message;
using streams::Operation;

/// The flags of the lanes, as the GPUs of this process reach them.
class Flags {
 public:
  Flags(std::shared_ptr<const cuda::Gpu> gpu, std::shared_ptr<const Lanes> lanes);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  cuda::Address address(std::size_t offset) const { return address_ + offset; }

 private:
  const std::shared_ptr<const cuda::Gpu> gpu_;
  const std::shared_ptr<const Lanes> lanes_;
  cuda::Address address_ = 0;
};

/// One rank's copies. Of each message, the side that posts first says where its memory is and lets
/// its GPU set a flag; the side that posts second queues the copy behind that flag, straight
/// between the two places, and sets another, for which the first one's GPU waits. What it sends it
/// copies on the transfer stream, what it receives on a second one, so that both directions move at
/// once.
///
/// Other processes are let into memory of the pool, and into any other that is mapped and can be
/// exported; the rest goes through some of the pool. What another rank may touch lives until it no
/// longer does: the pool's as long as this connection, any other as long as the host has not seen
/// the operation over.
class Connection final : public streams::Connection {
 public:
  /// What it takes to reach ranks that are other processes.
  struct Apart {
    bool descriptors = false;  // processes may take each other's
    Imports::TakeDescriptor take = {};
  };

  /// `apart`: every rank is a process of its own, instead of all being in this one.
  Connection(std::shared_ptr<Lanes> lanes, std::shared_ptr<const Flags> flags,
             const std::shared_ptr<const cuda::Gpu>& gpu, int ranks, int rank, bool strict,
             std::optional<Apart> apart);
  cuda::Allocator allocator() const override { return pool_->allocator(); }
  bool ready() const override { return !aborted_; }
  std::optional<Error> announce(Operation& operation) override;
  void begin(Operation& operation, const cuda::Stream& stream) override;
  void end(Operation& operation, const cuda::Stream& stream) override;
  bool idle() const override { return incoming_.idle(); }
  std::string_view why_not_captured() const override {
    return "on cuda_ipc each waits for a flag of its own, which rises once; nccl can capture them";
  }
  void finalize() override {}
  void destroy() override;
  void abort() noexcept override;

 private:
  /// A message of the operation under way.
  struct Half {
    bool first = true;
    Slice staging;  // if the message is not in memory that the other side can be let into
    Place place;    // the message's, or the staging's
    Slice other;    // the first one's memory, of the second
  };

  void show(Operation& operation, const Message& message, Half& half) const;
  Slice reach(Operation& operation, const Place& place);
  void set(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const;
  void wait(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const;
  void copy(const cuda::Stream& stream, const Message& message) const;
  template <typename Call>
  void each(const Operation& operation, bool first, const Call& call) const;

  const std::shared_ptr<const Flags> flags_;
  const std::shared_ptr<const cuda::Gpu> gpu_;
  const int ranks_;
  const bool strict_, apart_, descriptors_;
  const std::int64_t process_;  // this one, among those of the ranks
  const std::shared_ptr<Pool> pool_;
  Imports imports_;
  const cuda::Stream incoming_;
  const cuda::Event forked_, joined_;
  std::vector<Half> halves_;  // [Message::place]
  std::atomic<bool> aborted_{false};
  std::vector<std::atomic<std::int64_t>> last_sent_, last_awaited_;  // number, [peer]; -1: none
};

}  // namespace ringspan::comm::cuda_ipc
