// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/cpu_walk.hpp"

#include <algorithm>

namespace ringspan::attention::cpu {
namespace {

/// Indices first .. end - 1 of the rows of a tile.
struct Range {
  std::int64_t first, end;
};

Rows rows_of(const Rows& rows, const Range& range) {
  return {rows.first + range.first * rows.step, rows.step, range.end - range.first};
}

/// Those of the keys that some of the queries see.
Range visible(const Tile& tile, const Range& queries, const Range& keys) {
  return {std::max(keys.first, queries.first + tile.lo), std::min(keys.end, queries.end + tile.hi)};
}

/// The tiles at the front that have the same query rows.
std::span<const Tile> same_queries(std::span<const Tile> tiles) {
  std::size_t count = 1;
  while (count < tiles.size() && tiles[count].queries == tiles[0].queries) ++count;
  return tiles.first(count);
}

/// The walk for one head of one batch entry.
struct HeadWalk {
  const InstructionSet& set;
  const Blocks& blocks;
  comm::Device& device;
  Pass& pass;
  std::int64_t b, h, kv_h;

  void along_panels(const Tile& tile, const Range& queries, const Range& keys) const {
    for (std::int64_t first = queries.first; first < queries.end; first += set.width) {
      const Range panel = {first, std::min(first + set.width, queries.end)};
      const Range seen = visible(tile, panel, keys);
      if (seen.first >= seen.end) continue;
      const std::int64_t shift = seen.first - panel.first;
      const std::int64_t count = panel.end - panel.first;
      pass.compute(first - queries.first, seen.first - keys.first,
                   {panel_width(set, count), count, seen.end - seen.first, tile.lo - shift,
                    tile.hi - shift});
      device.poll();
    }
  }

  void along_keys(const Tile& tile, const Range& queries) const {
    const Range seen = visible(tile, queries, {0, tile.keys.count});
    for (std::int64_t first = seen.first; first < seen.end; first += blocks.keys) {
      const Range keys = {first, std::min(first + blocks.keys, seen.end)};
      const HeadRows loaded = {b, kv_h, rows_of(tile.keys, keys)};
      pass.load_keys(loaded);
      along_panels(tile, queries, keys);
      pass.store_keys(loaded);
    }
  }

  void along_queries(std::span<const Tile> tiles) const {
    const Rows& rows = tiles[0].queries;
    for (std::int64_t first = 0; first < rows.count; first += blocks.queries) {
      const Range queries = {first, std::min(first + blocks.queries, rows.count)};
      const HeadRows loaded = {b, h, rows_of(rows, queries)};
      pass.load_queries(loaded);
      for (const Tile& tile : tiles) along_keys(tile, queries);
      pass.store_queries(loaded);
    }
  }
};

}  // namespace

void walk(const InstructionSet& set, const Blocks& blocks, std::span<const Tile> tiles,
          const ConstTensorView& q, const ConstTensorView& k, comm::Device& device, Pass& pass) {
  for (std::int64_t b = 0; b < q.batch; ++b) {
    for (std::int64_t h = 0; h < q.heads; ++h) {
      const HeadWalk head = {set, blocks, device, pass, b, h, h / (q.heads / k.heads)};
      for (auto left = tiles; !left.empty();) {
        const auto together = same_queries(left);
        head.along_queries(together);
        left = left.subspan(together.size());
      }
    }
  }
}

}  // namespace ringspan::attention::cpu
