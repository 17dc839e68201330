// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "attention/schedules/block_pairs.hpp"
#include "attention/schedules/ring_trips.hpp"

namespace ringspan::attention {
namespace {

/// How far one block travels: [nodes behind its own] the hops of an inner turn, up to the last rank
/// that needs it, and -1 where none does; as many turns as nodes to the last one that needs it.
using Journey = std::vector<int>;

class Journeys {
 public:
  Journeys(const BlockPairs& pairs, int inner_ranks)
      : inner_ranks_(inner_ranks), nodes_(pairs.ranks() / inner_ranks) {
    for (int owner = 0; owner < pairs.ranks(); ++owner) {
      const Journey& journey = journeys_.emplace_back(find(pairs, owner));
      turns_.resize(std::max(turns_.size(), journey.size()));
      for (std::size_t turn = 0; turn < journey.size(); ++turn) {
        turns_[turn] = std::max(turns_[turn], journey[turn]);
      }
    }
  }

  /// [turn]: hops of the longest journey of any block.
  const std::vector<int>& turns() const { return turns_; }
  const Journey& of(int owner) const { return journeys_[owner]; }

  /// The rank so many places behind, or in front if negative, in both rings.
  int behind(int rank, int outer, int inner) const {
    const int node = (rank / inner_ranks_ + nodes_ - outer) % nodes_;
    return node * inner_ranks_ + (rank % inner_ranks_ + inner_ranks_ - inner) % inner_ranks_;
  }

 private:
  Journey find(const BlockPairs& pairs, int owner) const {
    Journey journey;
    for (int outer = nodes_ - 1; outer >= 0; --outer) {
      int hops = inner_ranks_ - 1;
      while (hops >= 0 && !pairs.meet(behind(owner, -outer, -hops), owner)) --hops;
      if (hops >= 0 || !journey.empty() || outer == 0) journey.push_back(hops);
    }
    std::reverse(journey.begin(), journey.end());
    return journey;
  }

  int inner_ranks_, nodes_;
  std::vector<Journey> journeys_;  // [owner]
  std::vector<int> turns_;
};

/// What all ranks send of one token and its gradient, which at the end of each trip goes home.
std::int64_t row_bytes(const Journey& journey, const TokenBytes& bytes) {
  std::int64_t sum = 0;
  const auto add_trip = [&](std::int64_t hops) {
    if (hops > 0) sum += hops * bytes.block + (hops + 1) * bytes.gradient;
  };
  add_trip(std::ssize(journey) - 1);
  for (const int hops : journey) add_trip(hops);
  return sum;
}

}  // namespace

RingSteps ring_steps(const Problem& problem, LayoutKind layout, const RingPlace& place,
                     Travelling travelling) {
  const BlockPairs pairs(problem, layout, place.ranks, travelling);
  const Journeys journeys(pairs, place.inner_ranks);
  const TokenBytes bytes = token_bytes(problem.shape, travelling);
  const int inner_ranks = place.inner_ranks, nodes = place.ranks / inner_ranks;
  const auto outwards = [&](int owner) {
    return Trip{static_cast<int>(journeys.of(owner).size()) - 1, pairs.tokens(owner)};
  };
  const auto inside = [&](int owner, std::size_t turn) {
    const Journey& journey = journeys.of(owner);
    return Trip{turn < journey.size() ? journey[turn] : -1, pairs.tokens(owner)};
  };

  RingSteps result;
  for (int turn = 0; turn < std::ssize(journeys.turns()); ++turn) {
    const auto behind = [&](int inner) { return journeys.behind(place.rank, turn, inner); };
    const int beyond = journeys.behind(place.rank, (turn + 1) % nodes, 0);
    for (int at = 0; at <= std::max(journeys.turns()[turn], 0); ++at) {
      RingStep& step = result.steps.emplace_back();
      const int here = behind(at), coming = behind((at + 1) % inner_ranks);
      step.tokens = pairs.tokens(here);
      step.tiles = pairs.tiles(place.rank, here);
      const Trips around{at, inside(here, turn), inside(coming, turn), inside(behind(0), turn)};
      step.turn = turn;
      step.gradient = around.gradient(bytes, place.rank % inner_ranks, inner_ranks);
      result.hops.push_back({turn, at, around.hop(bytes)});
      if (at > 0) continue;
      const Trips out{turn, outwards(here), outwards(beyond), outwards(place.rank)};
      result.hops.back().outer_hop = out.hop(bytes);
      result.turns.push_back({around.own.hops >= 0, step.tokens,
                              out.gradient(bytes, place.rank / inner_ranks, nodes)});
    }
  }
  for (int owner = 0; owner < place.ranks; ++owner) {
    result.largest = std::max(result.largest, pairs.tokens(owner));
    result.backward_bytes += pairs.tokens(owner) * row_bytes(journeys.of(owner), bytes);
  }
  return result;
}

}  // namespace ringspan::attention
