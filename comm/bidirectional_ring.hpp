// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/ring_exchange.hpp"

namespace ringspan::comm {

/// Passes the front half of every rank's block to the next rank and the back half to the previous
/// one, so that both directions of each link carry half of the bytes at the same time. After h hops
/// a rank holds the front of the block of rank - h and the back of the block of rank + h. Where a
/// block is cut is the caller's choice; both halves may be all of it, each for half of the ranks.
///   own halves: begin(), write front() and back(); then per step: start(...), use both, finish().
class BidirectionalRing {
 public:
  struct Halves {
    std::int64_t front = 0, back = 0;  // bytes
  };

  /// `capacity`: of the largest halves of any rank. Local; allocates the buffers.
  BidirectionalRing(const Communicator& comm, Halves capacity);

  /// This rank's own halves, to be written, as those held.
  void begin();

  /// The halves held now; read-only from the first start() until the next begin().
  const Buffer& front() const { return to_next_.block(); }
  const Buffer& back() const { return to_prev_.block(); }

  /// Begins a hop of both, as RingExchange does; both may be read until finish().
  void start(Halves sent, Halves received);
  void finish();

 private:
  RingExchange to_next_, to_prev_;
};

}  // namespace ringspan::comm
