// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "comm/devices/cuda/memory.hpp"
#include "comm/transports/streams/lanes.hpp"
#include "comm/transports/streams/operation.hpp"

namespace ringspan::comm::streams {

/// How one rank's messages get to the other GPUs: all that differs between one transport of this
/// kind and another. Used by the rank's thread, except for ready(), idle() and abort(), which a
/// watchdog calls, too.
class Connection {
 public:
  /// The lanes of all ranks, and the one whose messages these are.
  Connection(std::shared_ptr<Lanes> lanes, int rank) : lanes_(std::move(lanes)), rank_(rank) {}
  virtual ~Connection() = default;

  /// Where device memory is to come from; none: the driver's pool.
  virtual cuda::Allocator allocator() const { return {}; }

  /// False while a call is under way, and for ever after abort(). Throws peer_failed if another
  /// rank is at fault, system for any other failure, also of what runs on the GPU.
  virtual bool ready() const = 0;

  /// Called once, when it is ready for the first time: queues what it needs before any message.
  virtual void open(const cuda::Stream&) {}

  /// Whether the operation can be announced already.
  bool room(const Operation& operation) const { return lanes_->room(rank_, operation); }
  /// Lets the other sides see this rank's halves, and gives these their `place`. Returns what does
  /// not fit with a half seen so. Throws system, with a rank whose memory does not open as
  /// where().peer.
  virtual std::optional<Error> announce(Operation& operation) = 0;
  /// Whether the other half of an announced message has been.
  bool has_met(const Message& message) const {
    return lanes_->has_met(side(message), message.number);
  }

  /// Begins to queue all messages of an announced operation, none of which waits for another; once
  /// ready(), end() queues what remains.
  virtual void begin(Operation& operation, const cuda::Stream& stream) = 0;
  virtual void end(Operation& operation, const cuda::Stream& stream) = 0;

  /// Why no graph can hold its messages, which are queued once and run at each launch; empty: one
  /// can.
  virtual std::string_view why_not_captured() const = 0;

  /// Begins to end the connection: all ranks do, once nothing is queued. Then destroy().
  virtual void finalize() = 0;
  /// Lets go of what it has of others: nothing of this rank is queued any more.
  virtual void destroy() = 0;

  /// What it has queued on streams of its own has run. Throws system if some of it has failed.
  virtual bool idle() const { return true; }

  /// Ends what is queued on the GPU wherever it is, and makes the connection useless. Called until
  /// nothing is queued any more.
  virtual void abort() noexcept = 0;

 protected:
  Lanes::Side side(const Message& message) const { return Lanes::side(rank_, message); }

  const std::shared_ptr<Lanes> lanes_;
  const int rank_;
};

}  // namespace ringspan::comm::streams
