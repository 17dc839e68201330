// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/block_pairs.hpp"

#include <algorithm>
#include <limits>

#include "attention/segments.hpp"

namespace ringspan::attention {

void BlockPairs::Extent::add(std::int64_t from, std::int64_t to) {
  first = std::min(first, from);
  last = std::max(last, to);
}

BlockPairs::BlockPairs(const Problem& problem, LayoutKind layout, int ranks, Travelling travelling)
    : problem_(problem), travelling_(travelling), shards_(shards(layout, problem.sequence, ranks)) {
  for (const Shard& shard : shards_) blocks_.push_back(block(shard));
}

BlockPairs::Block BlockPairs::block(const Shard& shard) const {
  const Mask& mask = problem_.mask;
  const Sequence& sequence = problem_.sequence;
  constexpr Extent kNone{std::numeric_limits<std::int64_t>::max(), -1};
  Block block{kNone, kNone};
  for (const Segment& segment :
       segments(shard, mask.documents ? sequence : without_boundaries(sequence))) {
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

std::vector<Tile> BlockPairs::tiles(int rank, int owner) const {
  const int queries = travelling_ == Travelling::kv ? rank : owner;
  const int keys = travelling_ == Travelling::kv ? owner : rank;
  if (!blocks_[keys].seen_from.meets(blocks_[queries].tokens)) return {};  // most pairs, at once
  return visible_tiles(shards_[queries], shards_[keys], problem_.sequence, problem_.mask);
}

}  // namespace ringspan::attention
