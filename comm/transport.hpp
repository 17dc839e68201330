// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "comm/buffer.hpp"
#include "comm/device.hpp"
#include "comm/error.hpp"
#include "comm/request.hpp"

namespace ringspan::comm {

/// A message to rank `to` of the group.
struct Send {
  int to = 0;
  Slice slice;
};

/// A message from rank `from` of the group, of exactly slice.bytes(). With `rebind` set, a
/// transport that lends may point *rebind at the sender's buffer instead of filling the slice
/// (whose buffer may then be empty); it does so when the sent slice starts at the beginning of its
/// buffer and is one row. *rebind must stay where it is until the request is done.
struct Recv {
  int from = 0;
  Slice slice;
  Buffer* rebind = nullptr;
};

/// What one rank has sent since it started, over all its groups. Messages to oneself are free.
struct Traffic {
  std::int64_t bytes_sent = 0;
  std::int64_t inter_node_bytes_sent = 0;
  std::int64_t messages_sent = 0;
  std::int64_t bytes_copied = 0;  // by this rank as a receiver; zero when every hop was lent
};

/// How one rank of a group reaches the others. One subclass per backend, in comm/transports/.
/// One thread per rank uses it. Every rank posts in one global order across all its groups.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts a batch and returns at once, but for NCCL's first message between two ranks (gpus.md);
  /// receives are posted first. Between two ranks of a group, messages match in the order posted;
  /// nothing is assumed about buffering. Every rank of the group posts every operation, with empty
  /// lists if it has nothing to send, and under the same name: sizes and names of a matched pair
  /// must agree. Self-messages, zero bytes and several messages per pair are ordinary. Slices are
  /// taken over (moved from): a sender that keeps no handle of a lent buffer gives it away.
  virtual Request post(std::string_view operation, std::span<Send> sends,
                       std::span<Recv> recvs) = 0;

  /// A separate channel of the same engine among `ranks` (of this group, in their new order), which
  /// include this rank. Every rank of this group calls it at the same point, each with its own
  /// group.
  virtual std::shared_ptr<Transport> group(std::span<const int> ranks) = 0;

  virtual Device& device() = 0;
  virtual Traffic traffic() const = 0;

  /// Waits until this rank is the sole owner of a buffer that it lent.
  virtual void reclaim(const Buffer& buffer) = 0;

  /// Poisons every group of the world with this cause, unless an earlier one has. Local,
  /// idempotent, never waits for peers, and the one call that any thread may make (a watchdog).
  virtual void abort(const Error& cause) = 0;
};

}  // namespace ringspan::comm
