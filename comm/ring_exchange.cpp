// SPDX-License-Identifier: Apache-2.0
#include "comm/ring_exchange.hpp"

#include <utility>

#include "comm/batch.hpp"
#include "comm/in_turn.hpp"

namespace ringspan::comm {

RingExchange::RingExchange(Communicator comm, std::int64_t capacity, Direction direction)
    : comm_(std::move(comm)), direction_(direction) {
  RINGSPAN_REQUIRE(capacity >= 0, "ring_exchange: capacity ", capacity, " must not be negative");
  own_ = comm_.device().allocate(capacity);
  if (!comm_.lends()) incoming_ = comm_.device().allocate(capacity);
}

const Buffer& RingExchange::begin() {
  require_in_turn(comm_, !hopping_, "ring_exchange: begin() before the last hop was finished");
  visiting_ = Buffer();  // first: its owner may be waiting for it in begin(), too
  comm_.lends() ? comm_.reclaim(own_) : comm_.reclaim({});  // throws if the world has failed
  return own_;
}

void RingExchange::begin(Buffer block) {
  RINGSPAN_REQUIRE(block.bytes() <= capacity(), "ring_exchange: a block of ", block.bytes(),
                   " bytes exceeds the capacity of ", capacity());
  begin();
  visiting_ = std::move(block);
}

void RingExchange::start(std::int64_t sent, std::int64_t received) {
  require_in_turn(comm_, !hopping_, "ring_exchange: start() before the last hop was finished");
  RINGSPAN_REQUIRE(sent >= 0 && sent <= capacity() && received >= 0 && received <= capacity(),
                   "ring_exchange: ", sent, " bytes sent and ", received,
                   " received must lie between 0 and the capacity of ", capacity());
  const bool forwards = direction_ == Direction::to_next;
  const int to = forwards ? comm_.next() : comm_.prev();
  const int from = forwards ? comm_.prev() : comm_.next();
  if (comm_.size() > 1) {  // else the block is where it goes
    in_flight_ = post_pair(comm_, "ring_exchange", to, slice(block(), 0, sent), from,
                           slice(incoming_, 0, received), comm_.lends() ? &incoming_ : nullptr);
  }
  hopping_ = true;
}

void RingExchange::finish() {
  require_in_turn(comm_, hopping_, "ring_exchange: finish() without start()");
  hopping_ = false;  // even if the wait fails: later calls then report that failure
  in_flight_.wait();
  if (comm_.size() == 1) return;
  visiting_ = Buffer();
  std::swap(comm_.lends() ? visiting_ : own_, incoming_);
}

}  // namespace ringspan::comm
