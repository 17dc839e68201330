// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_steps.hpp"

#include <algorithm>

namespace ringspan::attention {
namespace {

/// How many hops the block of `owner` travels.
int journey(const Problem& problem, const std::vector<Shard>& shards, int owner) {
  const int ranks = static_cast<int>(shards.size());
  for (int hops = ranks - 1; hops > 0; --hops) {
    const Shard& queries = shards[(owner + hops) % ranks];
    if (!visible_tiles(queries, shards[owner], problem.sequence, problem.mask).empty()) return hops;
  }
  return 0;
}

}  // namespace

std::vector<RingStep> ring_steps(const Problem& problem, LayoutKind layout, int ranks, int rank) {
  const KvFormat kv{problem.shape, problem.shape.dtype};
  const KvFormat gradient{problem.shape, accumulator(problem.shape.dtype)};
  std::vector<Shard> shards(ranks);
  for (int r = 0; r < ranks; ++r) shards[r] = shard(layout, problem.sequence, ranks, r);
  std::vector<int> journeys(ranks);
  for (int owner = 0; owner < ranks; ++owner) journeys[owner] = journey(problem, shards, owner);

  std::vector<RingStep> steps(1 + *std::max_element(journeys.begin(), journeys.end()));
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    RingStep& step = steps[s];
    const int here = (rank - s + ranks) % ranks, coming = (here - 1 + ranks) % ranks;
    step.tokens = tokens(shards[here]);
    step.tiles = visible_tiles(shards[rank], shards[here], problem.sequence, problem.mask);

    const bool moves_on = s<journeys[here], goes_home = s> 0 && s == journeys[here];
    if (moves_on) step.sent = kv.bytes(step.tokens);
    if (moves_on || goes_home) step.gradient.sent = gradient.bytes(step.tokens);
    step.gradient.sent_to = goes_home ? here : (rank + 1) % ranks;
    if (s < journeys[coming]) {
      step.received = kv.bytes(tokens(shards[coming]));
      step.gradient.received = gradient.bytes(tokens(shards[coming]));
    }
    if (s > 0 && s == journeys[rank]) {
      step.gradient.home = gradient.bytes(tokens(shards[rank]));
      step.gradient.home_from = (rank + s) % ranks;
    }
  }
  return steps;
}

}  // namespace ringspan::attention
