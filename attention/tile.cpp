// SPDX-License-Identifier: Apache-2.0
#include "attention/tile.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "attention/segments.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

__extension__ using Wide = __int128;  // positions may be near 2^62, and so may window bounds

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

// For b > 0; C++ division truncates.
Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0); }
Wide ceil_div(Wide a, Wide b) { return a / b + (a % b > 0); }

/// Tokens of one stride in one document, and the rows that hold them.
struct Line {
  Rows rows;
  std::int64_t first = 0;  // position
};

/// Every `steps`-th token of the segment, starting with token `residue`.
Line every(const Segment& segment, std::int64_t steps, std::int64_t residue) {
  const std::int64_t count = (segment.tokens.count - residue - 1) / steps + 1;
  return {{segment.row + residue, count > 1 ? steps : 1, count},
          segment.tokens.first + segment.tokens.stride * residue};
}

Rows part(const Rows& rows, Wide begin, Wide end) {
  const auto count = static_cast<std::int64_t>(end - begin + 1);
  return {rows.first + rows.step * static_cast<std::int64_t>(begin), count > 1 ? rows.step : 1,
          count};
}

class Tiling {
 public:
  explicit Tiling(const Mask& mask) : mask_(mask) {}

  void add(const Segment& queries, const Segment& keys) {
    std::int64_t s = queries.tokens.stride, t = keys.tokens.stride;
    if (queries.tokens.count == 1) s = t;
    if (keys.tokens.count == 1) t = s;
    const std::int64_t common = std::gcd(s, t), query_steps = t / common, key_steps = s / common;
    const Wide stride = Wide{s} * query_steps;  // lcm(s, t)
    for (std::int64_t i = 0; i < std::min(query_steps, queries.tokens.count); ++i) {
      for (std::int64_t j = 0; j < std::min(key_steps, keys.tokens.count); ++j) {
        add_band(every(queries, query_steps, i), every(keys, key_steps, j), stride);
      }
    }
  }

  std::vector<Tile> sorted() && {
    const auto order = [](const Tile& tile) {
      return std::tuple(tile.queries.first, tile.queries.step, tile.queries.count, tile.keys.first,
                        tile.keys.step);
    };
    std::sort(tiles_.begin(), tiles_.end(),
              [&](const Tile& a, const Tile& b) { return order(a) < order(b); });
    return std::move(tiles_);
  }

 private:
  /// Query i at a + stride * i, key j at b + stride * j: the visible pairs are a band, of which
  /// rows that see nothing and keys that nobody sees are cut off.
  void add_band(const Line& queries, const Line& keys, Wide stride) {
    const Wide last_query = queries.rows.count - 1, last_key = keys.rows.count - 1;
    const Wide distance = Wide{queries.first} - keys.first;
    const Wide lo = mask_.left ? ceil_div(distance - *mask_.left, stride) : -last_query;
    const Wide hi = mask_.right ? floor_div(distance + *mask_.right, stride) : last_key;
    if (lo > hi || lo > last_key || hi < -last_query) return;
    RINGSPAN_REQUIRE(tiles_.size() < kMaxTiles, "the mask falls into more than ", kMaxTiles,
                     " tiles here; a contiguous or zigzag layout, or fewer documents, gives fewer");

    const Wide first_i = std::max<Wide>(-hi, 0), last_i = std::min(last_key - lo, last_query);
    const Wide first_j = std::max<Wide>(lo, 0), last_j = std::min(last_query + hi, last_key);
    const Wide shift = first_i - first_j;
    tiles_.push_back({part(queries.rows, first_i, last_i), part(keys.rows, first_j, last_j),
                      static_cast<std::int64_t>(std::max(lo + shift, first_i - last_i)),
                      static_cast<std::int64_t>(std::min(hi + shift, last_j - first_j))});
  }

  const Mask mask_;
  std::vector<Tile> tiles_;
};

bool by_document(const Segment& a, const Segment& b) { return a.document < b.document; }

/// n-th triangular number; 0 for negative n.
Wide triangle(Wide n) { return n > 0 ? n * (n + 1) / 2 : 0; }

/// Pairs (i, j) of a q x k rectangle with j - i <= h: the sum over i of clamp(i + h + 1, 0, k).
Wide pairs_up_to(Wide h, Wide q, Wide k) {
  return triangle(q + h) - triangle(h) - triangle(q + h - k) + triangle(h - k);
}

/// Zigzag cuts documents that the mask does not know: any run may then see any other.
void require_few_runs(const Sequence& sequence, int ranks) {
  constexpr std::int64_t most = 1 << 10;
  static_assert(most * most == kMaxTiles);
  if (2 * (std::ssize(sequence.documents) + 1) <= most) return;  // two of each, and of the padding
  std::int64_t runs = 0;
  for (const Shard& shard : shards(LayoutKind::zigzag, sequence, ranks))
    runs = std::max(runs, std::ssize(shard));
  RINGSPAN_REQUIRE(
      runs <= most, std::ssize(sequence.documents), " documents in zigzag shards are up to ", runs,
      " runs on a rank, and without a mask of documents may fall into more than ", kMaxTiles,
      " tiles; at most ", most, " runs do not, and contiguous shards are one");
}

}  // namespace

std::vector<Tile> visible_tiles(const Shard& queries, const Shard& keys, const Sequence& sequence,
                                const Mask& mask) {
  const Sequence seen = mask.documents ? sequence : without_boundaries(sequence);
  std::vector<Segment> key_segments = segments(keys, seen);
  std::stable_sort(key_segments.begin(), key_segments.end(), by_document);

  Tiling tiling(mask);
  for (const Segment& segment : segments(queries, seen)) {
    if (segment.document < 0) continue;
    const auto [begin, end] =
        std::equal_range(key_segments.begin(), key_segments.end(), segment, by_document);
    for (auto key = begin; key != end; ++key) tiling.add(segment, *key);
  }
  return std::move(tiling).sorted();
}

void require_few_tiles(LayoutKind layout, const Sequence& sequence, const Mask& mask, int ranks) {
  if (layout == LayoutKind::zigzag && !mask.documents) return require_few_runs(sequence, ranks);
  const auto documents = mask.documents ? std::ssize(sequence.documents) : 1;
  const std::int64_t runs = layout == LayoutKind::zigzag ? 2 : 1;  // of one document in a shard
  RINGSPAN_REQUIRE(documents <= kMaxTiles / (runs * runs), documents, " documents in ",
                   name(layout), " shards may fall into more than ", kMaxTiles, " tiles; at most ",
                   kMaxTiles / (runs * runs), " documents do not");
}

std::int64_t visible_pairs(std::span<const Tile> tiles) {
  Wide pairs = 0;
  for (const Tile& tile : tiles) {
    const Wide q = tile.queries.count, k = tile.keys.count;
    pairs += pairs_up_to(tile.hi, q, k) - pairs_up_to(Wide{tile.lo} - 1, q, k);
  }
  return static_cast<std::int64_t>(std::min<Wide>(pairs, kMaxInt));
}

}  // namespace ringspan::attention
