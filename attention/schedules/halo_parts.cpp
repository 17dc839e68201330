// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/halo_parts.hpp"

#include <algorithm>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

HaloPart halo_part(const Problem& problem, const std::vector<Shard>& shards, int owner,
                   int viewer) {
  const auto seen = [&](const Shard& keys) {
    return visible_tiles(shards[viewer], keys, problem.sequence, problem.mask);
  };
  HaloPart part{owner, viewer};
  const std::vector<Tile> tiles = seen(shards[owner]);
  if (tiles.empty()) return part;
  std::int64_t end = 0;
  part.first = tokens(shards[owner]);
  for (const Tile& tile : tiles) {
    part.first = std::min(part.first, tile.keys.first);
    end = std::max(end, tile.keys.first + tile.keys.step * (tile.keys.count - 1) + 1);
  }
  part.tokens = end - part.first;
  part.tiles = seen({{shards[owner].front().first + part.first, 1, part.tokens}});
  return part;
}

}  // namespace

HaloParts halo_parts(const Problem& problem, int ranks, int rank) {
  const std::vector<Shard> shards =
      attention::shards(LayoutKind::contiguous, problem.sequence, ranks);
  HaloParts parts;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    HaloPart seen = halo_part(problem, shards, other, rank);
    HaloPart shown = halo_part(problem, shards, rank, other);
    if (seen.tokens > 0) parts.seen.push_back(std::move(seen));
    if (shown.tokens > 0) parts.shown.push_back(std::move(shown));
  }
  return parts;
}

void require_window(const Mask& mask) {
  RINGSPAN_REQUIRE(mask.left && mask.right, "halo: a query of mask ", name(mask),
                   " may see any number of tokens before or behind it; a window:LEFT[:RIGHT] must "
                   "bound them, or choose ring, zigzag or all_gather_kv");
}

}  // namespace ringspan::attention
