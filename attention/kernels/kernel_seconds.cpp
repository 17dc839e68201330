// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/kernel_seconds.hpp"

#include <algorithm>

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
    const bool first = i == 0 || !(tiles[i].queries == tiles[i - 1].queries);
    const double wasted = wasted_keys(tiles[i], curve.cut_keys());
    double pairs = static_cast<double>(visible_pairs(tiles.subspan(i, 1))) + wasted;
    if (first) pairs += static_cast<double>(tiles[i].queries.count) * curve.full.half_keys;
    const RateFit& fit = wasted > 0 ? curve.causal : curve.full;
    seconds += pairs / fit.flops_per_second;
  }
  return seconds * flops_per_pair * static_cast<double>(heads);
}

double wave_factor(std::int64_t thread_blocks, int multiprocessors, bool persistent) {
  if (persistent && thread_blocks >= multiprocessors) return 1;
  const std::int64_t waves = (thread_blocks + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(waves * multiprocessors) / static_cast<double>(thread_blocks);
}

}  // namespace ringspan::attention
