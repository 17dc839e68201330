// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/bidirectional_steps.hpp"

#include <algorithm>

#include "attention/schedules/block_pairs.hpp"
#include "attention/schedules/ring_trips.hpp"

namespace ringspan::attention {
namespace {

using comm::Direction;

/// One of the two rings.
class OneWay {
 public:
  OneWay(const BlockPairs& pairs, Direction direction)
      : direction_(direction), onwards_(direction == Direction::to_next ? 1 : -1) {
    ranks_ = pairs.ranks();
    const int most = direction == Direction::to_next ? ranks_ / 2 : (ranks_ - 1) / 2;
    for (int owner = 0; owner < ranks_; ++owner) {
      int hops = most;
      while (hops > 0 && !pairs.meet(further(owner, hops), owner)) --hops;
      trips_.push_back({hops, pairs.tokens(owner)});
      longest_ = std::max(longest_, hops);
    }
  }

  int longest() const { return longest_; }
  int owner(int rank, int at) const { return further(rank, -at); }
  Trips trips(int rank, int at) const {
    return {at, trips_[owner(rank, at)], trips_[owner(rank, at + 1)], trips_[rank]};
  }
  GradientRing::Move gradient(const TokenBytes& bytes, int rank, int at) const {
    return trips(rank, at).gradient(bytes, rank, ranks_, direction_);
  }

 private:
  int further(int rank, int places) const {
    return ((rank + onwards_ * places) % ranks_ + ranks_) % ranks_;
  }

  Direction direction_;
  int onwards_, ranks_ = 1, longest_ = 0;
  std::vector<Trip> trips_;  // [owner]
};

}  // namespace

std::vector<BidirectionalStep> bidirectional_steps(const Problem& problem, LayoutKind layout,
                                                   int ranks, int rank) {
  const BlockPairs pairs(problem, layout, ranks);
  const TokenBytes bytes = token_bytes(problem.shape, Travelling::kv);
  const OneWay front(pairs, Direction::to_next), back(pairs, Direction::to_prev);
  std::vector<BidirectionalStep> steps(1 + std::max(front.longest(), back.longest()));
  for (int at = 0; at < std::ssize(steps); ++at) {
    const auto block = [&](const OneWay& way) {
      const int owner = way.owner(rank, at);
      return BidirectionalBlock{pairs.tokens(owner), pairs.tiles(rank, owner),
                                way.gradient(bytes, rank, at)};
    };
    BidirectionalStep& step = steps[at];
    step.front = block(front);
    step.back = block(back);
    // Its own block a rank meets once, and one that it could meet on both sides as the front.
    if (at == 0 || 2 * at == ranks) step.back.tiles.clear();
    const auto to_next = front.trips(rank, at).hop(bytes),
               to_prev = back.trips(rank, at).hop(bytes);
    step.sent = {to_next.sent, to_prev.sent};
    step.received = {to_next.received, to_prev.received};
  }
  return steps;
}

}  // namespace ringspan::attention
