// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/transports/cuda_ipc/lanes.hpp"
#include "comm/transports/streams/connection.hpp"

namespace ringspan::comm::cuda_ipc {

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
class Connection final : public streams::Connection {
 public:
  Connection(std::shared_ptr<Lanes> lanes, std::shared_ptr<const Flags> flags,
             std::shared_ptr<const cuda::Gpu> gpu, int ranks, int rank, bool strict);
  ~Connection() override;

  bool ready() const override;
  bool room(const Operation& operation) const override;
  std::optional<Error> announce(Operation& operation) override;
  bool has_met(const Operation& operation, const Message& message) const override;
  void begin(Operation& operation, const cuda::Stream& stream) override;
  void end(Operation&, const cuda::Stream&) override {}
  void finalize() override {}
  void destroy() override { settle(); }
  void abort() noexcept override;
  void settle() noexcept override { lanes_->set_active(rank_, false); }
  bool settled() const override;

 private:
  Lanes::Side side(const Message& message) const;
  Offer offer(const Operation& operation, const Message& message) const;
  Slice reach(const Place& place) const;
  void set(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const;
  void wait(const cuda::Stream& stream, const Message& message, Lanes::Flag flag) const;
  void copy(const cuda::Stream& stream, const Message& message) const;

  const std::shared_ptr<Lanes> lanes_;
  const std::shared_ptr<const Flags> flags_;
  const int ranks_, rank_;
  const bool strict_;
  const cuda::Stream incoming_;
  const cuda::Event forked_, joined_;
  std::vector<Place>
      places_;  // of the batch under way, where the first halves lie: [Message::place]
  std::atomic<bool> aborted_{false};
  std::vector<std::atomic<std::int64_t>> last_sent_, last_awaited_;  // number, [peer]; -1: none
};

}  // namespace ringspan::comm::cuda_ipc
