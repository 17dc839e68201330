// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/ring_steps.hpp"

#include <algorithm>
#include <limits>

#include "attention/segments.hpp"

namespace ringspan::attention {
namespace {

/// Positions first .. last; none unless something is added.
struct Extent {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;

  void add(std::int64_t from, std::int64_t to) {
    first = std::min(first, from);
    last = std::max(last, to);
  }
  bool meets(const Extent& other) const { return first <= other.last && other.first <= last; }
};

/// Where one rank's block is needed.
struct Block {
  Extent tokens;
  Extent seen_from;  // no query outside of it sees any of the tokens
};

Block block(const Problem& problem, const Shard& shard) {
  const Mask& mask = problem.mask;
  Block block;
  for (const Segment& segment :
       segments(shard, mask.documents ? problem.sequence : without_boundaries(problem.sequence))) {
    if (segment.document < 0) continue;
    const auto& [first, stride, count] = segment.tokens;
    const std::int64_t last = first + stride * (count - 1);
    const std::int64_t before = first - segment.document_first;
    const std::int64_t behind = segment.document_first + segment.document_length - 1 - last;
    block.tokens.add(first, last);
    block.seen_from.add(first - std::min(mask.right.value_or(before), before),
                        last + std::min(mask.left.value_or(behind), behind));
  }
  return block;
}

/// [owner]: how many hops its block travels.
std::vector<int> journeys(const Problem& problem, const std::vector<Shard>& shards) {
  const int ranks = static_cast<int>(shards.size());
  std::vector<Block> blocks;
  for (const Shard& shard : shards) blocks.push_back(block(problem, shard));
  const auto needs = [&](int rank, int owner) {  // most pairs are ruled out by their extents
    return blocks[owner].seen_from.meets(blocks[rank].tokens) &&
           !visible_tiles(shards[rank], shards[owner], problem.sequence, problem.mask).empty();
  };
  std::vector<int> journeys(ranks);
  for (int owner = 0; owner < ranks; ++owner) {
    int& hops = journeys[owner] = ranks - 1;
    while (hops > 0 && !needs((owner + hops) % ranks, owner)) --hops;
  }
  return journeys;
}

}  // namespace

std::vector<RingStep> ring_steps(const Problem& problem, LayoutKind layout, int ranks, int rank) {
  const KvFormat kv{problem.shape, problem.shape.dtype};
  const KvFormat gradient{problem.shape, accumulator(problem.shape.dtype)};
  const std::vector<Shard> shards = attention::shards(layout, problem.sequence, ranks);
  const std::vector<int> journeys = attention::journeys(problem, shards);

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
