// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/transports/streams/offer.hpp"
#include "comm/transports/streams/shared_memory.hpp"

namespace ringspan::comm::streams {

/// Where the ranks of a machine tell each other what they have posted, and, by flags, their GPUs
/// how far they are: plain memory, which they may share between processes. There is a lane for all
/// messages from one rank to another, which are numbered. Whoever posts the second half of a
/// message learns what the first one is; nobody waits for it on the host. For ranks of other
/// machines, whose lanes to and from those here are there, too, a relay announces.
class Lanes {
 public:
  /// Halves that may be announced ahead of the other side's.
  static constexpr std::int64_t kSlots = 256;

  /// `here`: how many ranks are of this machine; all of them unless said otherwise.
  static std::size_t bytes(int ranks, int here);
  static std::size_t bytes(int ranks) { return bytes(ranks, ranks); }
  /// In that much memory, zero before start(), which one of those that share it calls once.
  Lanes(std::unique_ptr<const SharedMemory> memory, int ranks, const std::vector<int>& here);
  Lanes(std::unique_ptr<const SharedMemory> memory, int ranks);
  void start();

  /// A lane, and which side of it.
  struct Side {
    int from = 0, to = 0;
    bool sends = false;

    int rank() const { return sends ? from : to; }
    int peer() const { return sends ? to : from; }
    Side other() const { return {from, to, !sends}; }
  };
  /// The side of `rank` of the messages to, or from, `peer`.
  static Side side(int rank, int peer, bool sends) {
    return sends ? Side{rank, peer, true} : Side{peer, rank, false};
  }
  /// The side of `rank`, whose half of the message it is.
  static Side side(int rank, const Message& message) {
    return side(rank, message.peer, message.sends);
  }

  /// Whether all messages of the operation of `rank` may be announced.
  bool room(int rank, const Operation& operation) const;

  /// Whether that message of this side may be announced.
  bool room(const Side& side, std::int64_t number) const;
  /// Returns the other half, if that was first.
  std::optional<Offer> announce(const Side& side, std::int64_t number, const Offer& offer);
  bool has_met(const Side& side, std::int64_t number) const;

  /// For the relay: tells of each half that a rank here has announced to one elsewhere, once, in
  /// their order.
  using Tell = std::function<void(const Side& side, std::int64_t number, const Offer& offer)>;
  void pass_on(const Tell& tell);

  /// Values that rise from message to message, as 32 bits that wrap. `ready`: the GPU of the side
  /// that was first is there; `complete`: that of the second has copied.
  enum class Flag { ready, complete };
  static std::uint32_t value(std::int64_t number);
  /// Within flags(), of the flag that this side sets.
  std::size_t offset(const Side& side, Flag flag) const;
  /// Sets what this side waits for beyond its message `number`, so that the wait ends.
  void poison(const Side& side, std::int64_t number);

  /// Whole pages, as a GPU's driver wants to know them.
  std::byte* flags() const { return memory_; }
  std::size_t flag_bytes() const;

 private:
  struct Slot;
  struct Progress;

  bool is_here(int rank) const { return place_[rank] < here_; }
  std::size_t lane(const Side& side) const;
  Slot& slot(const Side& side, std::int64_t number) const;
  Progress& progress(const Side& side) const;
  std::uint32_t& flag(std::size_t offset) const {
    return *reinterpret_cast<std::uint32_t*>(memory_ + offset);
  }

  const std::unique_ptr<const SharedMemory> shared_;
  std::byte* const memory_;
  const int ranks_, here_;
  std::vector<int> place_;  // [rank], those of this machine first
};

}  // namespace ringspan::comm::streams
