// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace ringspan::comm {

enum class Direction { to_next, to_prev };

/// Passes one block per rank around the ring, one hop at a time, while the caller works on the
/// block that is already here. Two buffers where hops copy, one where they lend, whatever the
/// number of ranks.
///   own block: begin(), write it; then per step: start(...), use block(), finish().
class RingExchange {
 public:
  /// `capacity`: bytes of the largest block of any rank. Local; allocates the buffers.
  RingExchange(Communicator comm, std::int64_t capacity, Direction direction = Direction::to_next);
  RingExchange(const RingExchange&) = delete;  // a hop in flight may rebind a buffer in here
  RingExchange& operator=(const RingExchange&) = delete;

  std::int64_t capacity() const { return own_.bytes(); }

  /// This rank's own block, to be written, as the one held. Waits until no peer still reads it.
  const Buffer& begin();

  /// The same with a block that is in memory already, in place of the own one. Where hops lend, it
  /// is in use until its buffer has no other owner.
  void begin(Buffer block);

  /// The block held now; read-only from the first start() until the next begin().
  const Buffer& block() const { return visiting_ ? visiting_ : own_; }

  /// Begins a hop: `sent` bytes of the held block go on, `received` bytes come in. Zero means no
  /// message; neighbours must agree. The held block may be read until finish().
  void start(std::int64_t sent, std::int64_t received);

  /// Ends the hop: the block received is now the one held (after receiving nothing, its contents
  /// are unspecified).
  void finish();

 private:
  Communicator comm_;
  Direction direction_;
  Buffer own_;       // where hops copy, just the held one of the two buffers
  Buffer visiting_;  // a block of somebody else's memory, if one is held
  Buffer incoming_;
  bool hopping_ = false;
  Request in_flight_;  // last: goes before the buffers it uses
};

}  // namespace ringspan::comm
