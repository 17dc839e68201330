// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/mask.hpp"
#include "attention/token_layout.hpp"

namespace ringspan::attention {

/// Rows of a shard in storage order: first, first + step, ...
struct Rows {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// Query i of `queries` sees key j of `keys` iff lo <= j - i <= hi. The only form in which a kernel
/// meets a mask. Every query and every key of a tile has at least one visible partner.
struct Tile {
  Rows queries, keys;
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// The visible part of a query shard against a key shard of the same sequence, as tiles sorted by
/// query rows, then key rows. For runs of one stride s, query position a + s*i and key position b +
/// s*j, the mask is the band lo = ceil_div(a - b - left, s) <= j - i <= hi = floor_div(a - b +
/// right, s); for strides s and t it is cut into residue sub-runs of stride lcm(s, t). Throws
/// invalid_argument when there would be more than `kMaxTiles`.
std::vector<Tile> visible_tiles(const Shard& queries, const Shard& keys, const Sequence& sequence,
                                const Mask& mask);

inline constexpr std::int64_t kMaxTiles = 1 << 20;

/// Throws invalid_argument, on all ranks alike, if two shards of so many ranks might have more.
void require_few_tiles(LayoutKind layout, const Sequence& sequence, const Mask& mask, int ranks);

/// Number of (query, key) pairs that the tiles make visible; exact.
std::int64_t visible_pairs(std::span<const Tile> tiles);

}  // namespace ringspan::attention
