// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ringspan::comm::processes {

/// One message on its way.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// True once it has arrived (a receive) or its memory may be written again (a send). Does not
  /// progress the wire. Throws peer_failed if the network says that the peer is gone.
  virtual bool done() = 0;

  /// Bytes that came in, of a receive that is done; more than the memory holds if the message did
  /// not fit, which then holds nothing of use.
  virtual std::int64_t received() const = 0;

  /// Gives it up. True if its memory is free at once; otherwise that must outlive done().
  virtual bool cancel() = 0;
};

/// Something small that one process tells another beside its messages.
struct Notice {
  int from = 0;
  std::vector<std::byte> bytes;
};

/// How the processes of a world reach each other: all that differs between one process transport
/// and another. It knows no groups and no deadlines; the Engine above it does. Used by one thread.
/// Messages match in the order posted per peer and tag. Never blocks.
class Wire {
 public:
  static constexpr std::int64_t kLargestNotice = 1024;  // bytes

  virtual ~Wire() = default;

  virtual int rank() const = 0;  // in the world
  virtual int size() const = 0;
  virtual std::int64_t tags() const = 0;  // messages bear tags from 0 to below this

  /// The most bytes that one send() or receive() takes, a multiple of 8 KiB. MPI counts in an int.
  virtual std::int64_t largest_message() const { return std::int64_t{1} << 30; }

  /// Whether the memory may be a GPU's.
  virtual bool reaches_gpus() const { return false; }

  /// The memory stays where it is, and a received one untouched, until the transfer is done.
  virtual std::unique_ptr<Transfer> send(int to, std::int64_t tag,
                                         std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::int64_t tag,
                                            std::span<std::byte> bytes) = 0;

  /// False if an earlier notice to this rank has not left yet: try again later.
  virtual bool send_notice(int to, std::span<const std::byte> bytes) = 0;
  /// The next notice from anyone that has come in, if there is one.
  virtual std::optional<Notice> receive_notice() = 0;

  /// Moves what can be moved.
  virtual void progress() = 0;

  /// Why this rank is known to be gone; empty if nothing is known.
  virtual std::string lost(int rank) const = 0;

  /// The launch has failed: what is under way may never end.
  virtual void fail() {}
};

}  // namespace ringspan::comm::processes
