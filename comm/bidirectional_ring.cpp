// SPDX-License-Identifier: Apache-2.0
#include "comm/bidirectional_ring.hpp"

namespace ringspan::comm {

BidirectionalRing::BidirectionalRing(const Communicator& comm, Halves capacity)
    : to_next_(comm, capacity.front, Direction::to_next),
      to_prev_(comm, capacity.back, Direction::to_prev) {}

void BidirectionalRing::begin() {
  to_next_.begin();
  to_prev_.begin();
}

// Every rank posts the front first: where next and previous are one rank, that order alone tells
// the halves apart.
void BidirectionalRing::start(Halves sent, Halves received) {
  const std::int64_t capacity = to_prev_.capacity();  // asked before the front is on its way
  RINGSPAN_REQUIRE(
      sent.back >= 0 && sent.back <= capacity && received.back >= 0 && received.back <= capacity,
      "bidirectional_ring: ", sent.back, " bytes sent and ", received.back,
      " received backwards must lie between 0 and the capacity of ", capacity);
  to_next_.start(sent.front, received.front);
  to_prev_.start(sent.back, received.back);
}

void BidirectionalRing::finish() {
  to_next_.finish();
  to_prev_.finish();
}

}  // namespace ringspan::comm
