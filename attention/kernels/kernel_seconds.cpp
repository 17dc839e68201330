// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/kernel_seconds.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace ringspan::attention {
namespace {

/// sum of min(k, most) for k in 1 .. last.
double capped_sum(std::int64_t last, std::int64_t most) {
  const auto n = static_cast<double>(std::max<std::int64_t>(last, 0));
  const auto m = static_cast<double>(most);
  return n <= m ? n * (n + 1) / 2 : m * (m + 1) / 2 + (n - m) * m;
}

/// Keys that rows compute for nothing where the mask cuts their blocks: at each cut `most`, but
/// never more than there are behind it.
double wasted_keys(const Tile& tile, std::int64_t most) {
  const std::int64_t rows = tile.queries.count, keys = tile.keys.count;
  const std::int64_t behind_first = keys - 1 - tile.hi;  // of row 0, one fewer of row 1, ...
  const std::int64_t before_last = tile.lo + tile.queries.count - 1;  // of the last row
  return capped_sum(behind_first, most) - capped_sum(behind_first - rows, most) +
         capped_sum(before_last, most) - capped_sum(before_last - rows, most);
}

/// Whether it is the first tile of its rows.
bool begins_rows(std::span<const Tile> tiles, std::size_t i) {
  return i == 0 || !(tiles[i].queries == tiles[i - 1].queries);
}

/// Of a head, at one operation a pair. `first`: of its rows.
double tile_seconds(const KernelCurve& curve, const Tile& tile, bool first) {
  const double wasted = wasted_keys(tile, curve.cut_keys());
  double pairs = static_cast<double>(visible_pairs({&tile, 1})) + wasted;
  if (first) pairs += static_cast<double>(tile.queries.count) * curve.full.half_keys;
  return pairs / (wasted > 0 ? curve.causal : curve.full).flops_per_second;
}

/// Row i of these is row begin + i of the tile.
Tile rows_of(const Tile& tile, std::int64_t begin, std::int64_t end) {
  return {{tile.queries.first + tile.queries.step * begin, tile.queries.step, end - begin},
          tile.keys,
          tile.lo + begin,
          tile.hi + begin};
}

/// The same of each thread block of a head. Rows count from block to block in the order of tiles.
std::vector<double> thread_block_seconds(const KernelCurve& curve, std::span<const Tile> tiles,
                                         std::int64_t rows) {
  const std::int64_t size = curve.block_rows;
  std::vector<double> seconds(static_cast<std::size_t>((rows + size - 1) / size));
  std::int64_t before = 0;  // rows of other tiles
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const bool first = begins_rows(tiles, i);
    if (first && i > 0) before += tiles[i - 1].queries.count;
    for (std::int64_t row = 0; row < tiles[i].queries.count;) {
      const std::int64_t block = (before + row) / size;
      const std::int64_t end = std::min((block + 1) * size - before, tiles[i].queries.count);
      seconds[static_cast<std::size_t>(block)] +=
          tile_seconds(curve, rows_of(tiles[i], row, end), first);
      row = end;
    }
  }
  return seconds;
}

}  // namespace

CallRows call_rows(std::span<const Tile> tiles, std::int64_t key_tokens) {
  CallRows rows;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (i == 0 || !(tiles[i].queries == tiles[i - 1].queries)) {
      rows.queries += tiles[i].queries.count;
    }
    rows.keys += tiles[i].keys.count;
  }
  rows.keys = std::min(rows.keys, key_tokens);
  return rows;
}

double kernel_seconds(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
                      std::int64_t heads) {
  double seconds = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    seconds += tile_seconds(curve, tiles[i], begins_rows(tiles, i));
  }
  return seconds * flops_per_pair * static_cast<double>(heads);
}

double call_seconds(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
                    std::int64_t heads, std::int64_t rows, int multiprocessors) {
  const bool cut = std::any_of(tiles.begin(), tiles.end(), [&curve](const Tile& tile) {
    return wasted_keys(tile, curve.cut_keys()) > 0;
  });
  if (cut && curve.resident > 0) {
    return makespan(thread_block_seconds(curve, tiles, rows), heads, multiprocessors,
                    curve.resident) *
           multiprocessors * flops_per_pair;
  }
  const std::int64_t blocks = heads * ((rows + curve.block_rows - 1) / curve.block_rows);
  return kernel_seconds(curve, tiles, flops_per_pair, heads) *
         wave_factor(blocks, multiprocessors, curve.persistent);
}

double wave_factor(std::int64_t thread_blocks, int multiprocessors, bool persistent) {
  if (persistent && thread_blocks >= multiprocessors) return 1;
  const std::int64_t waves = (thread_blocks + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(waves * multiprocessors) / static_cast<double>(thread_blocks);
}

double makespan(std::span<const double> thread_blocks, std::int64_t heads, int multiprocessors,
                int resident) {
  // Of each multiprocessor: when it has room for a thread block, and what is left then of another.
  using Room = std::pair<double, double>;
  std::priority_queue<Room, std::vector<Room>, std::greater<>> rooms(
      {}, std::vector<Room>(static_cast<std::size_t>(multiprocessors)));
  double end = 0;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (const double seconds : thread_blocks) {
      auto [when, other] = rooms.top();
      rooms.pop();
      end = std::max(end, when + other + seconds);
      const double shared = std::min(other, seconds);
      rooms.push(resident == 1 ? Room{when + seconds, 0}
                               : Room{when + 2 * shared, std::max(other, seconds) - shared});
    }
  }
  return end;
}

}  // namespace ringspan::attention
