// SPDX-License-Identifier: Apache-2.0
#include "attention/tile.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <tuple>

#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/oracle.hpp"
#include "tests/attention/random_sequence.hpp"

namespace ringspan::attention {
namespace {

using testing::ElementsAre;

/// What the tiles make visible, by painting them: [query row][key row].
class Picture {
 public:
  Picture(const Shard& queries, const Shard& keys, const std::vector<Tile>& tiles)
      : queries_(tokens(queries)), keys_(tokens(keys)), seen_(queries_ * keys_) {
    for (const Tile& tile : tiles) paint(tile);
  }

  bool at(std::int64_t query, std::int64_t key) const { return seen_[query * keys_ + key] != 0; }
  std::int64_t pairs() const { return std::count(seen_.begin(), seen_.end(), 1); }

 private:
  void paint(const Tile& tile) {
    ASSERT_TRUE(tile.queries.count > 0 && tile.keys.count > 0);
    std::vector<bool> query_sees(tile.queries.count), key_seen(tile.keys.count);
    for (std::int64_t i = 0; i < tile.queries.count; ++i) {
      for (std::int64_t j = 0; j < tile.keys.count; ++j) {
        if (j - i < tile.lo || j - i > tile.hi) continue;
        query_sees[i] = key_seen[j] = true;
        const std::int64_t query = tile.queries.first + tile.queries.step * i;
        const std::int64_t key = tile.keys.first + tile.keys.step * j;
        ASSERT_TRUE(query >= 0 && query < queries_ && key >= 0 && key < keys_);
        ASSERT_EQ(seen_[query * keys_ + key]++, 0) << "seen twice: " << query << ' ' << key;
      }
    }
    EXPECT_EQ(std::count(query_sees.begin(), query_sees.end(), false), 0) << "an idle query";
    EXPECT_EQ(std::count(key_seen.begin(), key_seen.end(), false), 0) << "an idle key";
    EXPECT_GE(tile.lo, 1 - tile.queries.count);
    EXPECT_LE(tile.hi, tile.keys.count - 1);
  }

  std::int64_t queries_, keys_;
  std::vector<int> seen_;
};

void expect_exact(const Shard& queries, const Shard& keys, const Problem& problem) {
  const auto tiles = visible_tiles(queries, keys, problem.sequence, problem.mask);
  const Picture picture(queries, keys, tiles);
  const auto query_positions = positions(queries), key_positions = positions(keys);
  for (std::size_t i = 0; i < query_positions.size(); ++i) {
    for (std::size_t j = 0; j < key_positions.size(); ++j) {
      ASSERT_EQ(picture.at(i, j), sees(problem, query_positions[i], key_positions[j]))
          << name(problem.mask) << ": query " << query_positions[i] << ", key " << key_positions[j];
    }
  }
  EXPECT_EQ(visible_pairs(tiles), picture.pairs());
  const auto order = [](const Tile& tile) {
    return std::tuple(tile.queries.first, tile.queries.step, tile.queries.count, tile.keys.first);
  };
  EXPECT_TRUE(std::is_sorted(tiles.begin(), tiles.end(),
                             [&](const Tile& a, const Tile& b) { return order(a) < order(b); }));
}

Mask random_mask(std::mt19937_64& random) {
  Mask mask;
  if (pick(random, 0, 1)) mask.left = pick(random, 0, 30);
  if (pick(random, 0, 1)) mask.right = pick(random, 0, 1) * pick(random, 0, 30);
  mask.documents = pick(random, 0, 1);
  return mask;
}

/// Disjoint runs of mixed strides, not in order, somewhere in [first, first + length).
Shard random_shard(std::mt19937_64& random, std::int64_t first, std::int64_t length) {
  Shard shard;
  std::int64_t position = first;
  while (position < first + length) {
    const std::int64_t stride = pick(random, 1, 4);
    const std::int64_t count =
        std::min(pick(random, 1, 9), (first + length - position - 1) / stride + 1);
    shard.push_back({position, stride, count});
    position += stride * count + pick(random, 0, 5);
  }
  std::shuffle(shard.begin(), shard.end(), random);
  return shard;
}

TEST(TileTest, MatchesThePredicateForEveryLayoutAndMask) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < trials(200); ++trial) {
    Problem problem;
    problem.sequence = random_sequence(random, 6, 25);
    for (const LayoutKind kind :
         {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        problem.mask = random_mask(random);
        const auto query_rank = static_cast<int>(pick(random, 0, ranks - 1));
        const auto key_rank = static_cast<int>(pick(random, 0, ranks - 1));
        expect_exact(shard(kind, problem.sequence, ranks, query_rank),
                     shard(kind, problem.sequence, ranks, key_rank), problem);
      }
    }
  }
}

TEST(TileTest, MatchesThePredicateForMixedStridesAtAnyPosition) {
  std::mt19937_64 random(2);
  for (const std::int64_t base : {std::int64_t{0}, std::int64_t{1} << 31, std::int64_t{1} << 40}) {
    for (int trial = 0; trial < trials(150); ++trial) {
      Problem problem;
      problem.mask = random_mask(random);
      const std::int64_t start = std::max<std::int64_t>(base - 40, 0);
      problem.sequence = {.length = start + 130, .documents = {start, 10, 0, 50, 1, 20}};
      if (trial % 3 == 0) problem.sequence.documents = {start + 60};
      if (trial % 3 == 1) problem.sequence.documents = {};
      expect_exact(random_shard(random, start, 120), random_shard(random, start, 130), problem);
    }
  }
}

TEST(TileTest, OneStrideGivesOneBand) {
  // Query i at 2 + 4i, key j at 3 + 4j: causal is j < i, so hi = floor(-1 / 4) = -1.
  const auto tiles = visible_tiles({{2, 4, 5}}, {{3, 4, 5}}, {22}, {.right = 0});
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].queries, (Rows{1, 1, 4}));
  EXPECT_EQ(tiles[0].keys, (Rows{0, 1, 4}));
  EXPECT_EQ(tiles[0].lo, -3);
  EXPECT_EQ(tiles[0].hi, 0);
}

TEST(TileTest, PairsAreThoseInsideTheRectangle) {
  EXPECT_EQ(visible_pairs(std::vector<Tile>{{{0, 1, 3}, {0, 1, 2}, -9, 9}}), 6);
  EXPECT_EQ(visible_pairs(std::vector<Tile>{{{0, 1, 3}, {0, 1, 2}, 0, 0}}), 2);
  EXPECT_EQ(visible_pairs(std::vector<Tile>{{{0, 1, 3}, {0, 1, 2}, 1, 9}}), 1);
}

TEST(TileTest, RunsThatContinueEachOtherAreOne) {
  EXPECT_EQ(visible_tiles({{8, 1, 4}}, {{0, 1, 4}, {4, 1, 4}, {8, 1, 4}}, {12}, {}).size(), 1u);
}

TEST(TileTest, OneTokenTakesAnyStride) {
  EXPECT_EQ(visible_tiles({{9, 3, 1}}, {{1, 7, 5}}, {40}, {.right = 0}).size(), 1u);
  EXPECT_EQ(visible_tiles({{1, 7, 5}}, {{9, 3, 1}}, {40}, {.right = 0}).size(), 1u);
}

TEST(TileTest, PaddingIsInvisibleWhateverTheMask) {
  const Sequence sequence{.length = 10, .documents = {3, 4}};
  EXPECT_EQ(visible_pairs(visible_tiles({{0, 1, 10}}, {{0, 1, 10}}, sequence, {})), 49);
  EXPECT_THAT(visible_tiles({{7, 1, 3}}, {{0, 1, 10}}, sequence, {}), testing::IsEmpty());
  EXPECT_THAT(visible_tiles({{0, 1, 10}}, {{7, 1, 3}}, sequence, {}), testing::IsEmpty());
  const Sequence all_padding{.length = 10, .documents = {0}};
  EXPECT_THAT(visible_tiles({{0, 1, 10}}, {{0, 1, 10}}, all_padding, {}), testing::IsEmpty());
}

TEST(TileTest, EmptyShardsHaveNoTiles) {
  EXPECT_THAT(visible_tiles({}, {{0, 1, 4}}, {4}, {}), testing::IsEmpty());
  EXPECT_THAT(visible_tiles({{0, 1, 4}}, {}, {4}, {}), testing::IsEmpty());
  EXPECT_THAT(visible_tiles({}, {}, {0}, {}), testing::IsEmpty());
}

TEST(TileTest, HugePositionsAndBoundsDoNotWrap) {
  const std::int64_t far = std::int64_t{1} << 62;
  const Sequence sequence{.length = far + 10};
  const Mask everything{.left = INT64_MAX, .right = INT64_MAX};
  EXPECT_EQ(visible_pairs(visible_tiles({{far, 1, 10}}, {{0, 1, 10}}, sequence, everything)), 100);
  EXPECT_EQ(visible_pairs(visible_tiles({{0, 1, 10}}, {{far, 1, 10}}, sequence, everything)), 100);
  EXPECT_EQ(visible_pairs(visible_tiles({{0, 1, 10}}, {{far, 1, 10}}, sequence, {.right = far})),
            55);
  EXPECT_EQ(visible_pairs(visible_tiles({{far, 1, 10}}, {{0, 1, 10}}, sequence, {.left = far})),
            55);
  EXPECT_EQ(visible_pairs(visible_tiles({{0, 1, far}}, {{0, 1, far}}, sequence, {})), INT64_MAX);
  const Shard sparse = {{0, far / 2, 2}}, sparser = {{1, far / 2 + 1, 2}};
  EXPECT_EQ(visible_pairs(visible_tiles(sparse, sparser, sequence, {.right = 0})), 1);
  const std::int64_t half = std::int64_t{1} << 31;
  EXPECT_EQ(visible_pairs(visible_tiles({{0, 1, half}}, {{0, 1, half}}, {half}, {.right = 0})),
            half / 2 * (half + 1));
}

TEST(TileTest, HundredsOfDocumentsStayLinear) {
  Sequence sequence{.length = 0, .documents = std::vector<std::int64_t>(20000, 37)};
  sequence.length = 20000 * 37;
  const Shard mine = shard(LayoutKind::zigzag, sequence, 4, 1);
  const auto start = std::chrono::steady_clock::now();
  const auto tiles = visible_tiles(mine, mine, sequence, {.right = 0, .documents = true});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LE(tiles.size(), 3u * 20000u);
  EXPECT_LT(taken.count(), 5.0) << "all pairs of documents would take minutes";
}

TEST(TileTest, RefusesMoreTilesThanAllowed) {
  const Sequence sequence{.length = std::int64_t{1} << 40};
  EXPECT_THROW(visible_tiles({{0, 1031, 1 << 11}}, {{0, 1033, 1 << 11}}, sequence, {}), Error);
}

/// Causal pairs per rank of 16 tokens on 4 ranks.
std::vector<std::int64_t> work(LayoutKind kind) {
  Problem problem;
  problem.sequence = {.length = 16};
  problem.mask = {.right = 0};
  std::vector<std::int64_t> pairs;
  for (int rank = 0; rank < 4; ++rank) {
    pairs.push_back(visible_pairs(shard(kind, problem.sequence, 4, rank), problem));
  }
  return pairs;
}

TEST(TileTest, RingBalanceIsAsPublished) {
  EXPECT_THAT(work(LayoutKind::contiguous), ElementsAre(10, 26, 42, 58));
  EXPECT_THAT(work(LayoutKind::zigzag), ElementsAre(34, 34, 34, 34));
  EXPECT_THAT(work(LayoutKind::striped), ElementsAre(28, 32, 36, 40));
}

TEST(TileTest, CausalContiguousRingNeedsTenOfSixteenBlockPairs) {
  int visible = 0;
  for (int q = 0; q < 4; ++q) {
    for (int k = 0; k < 4; ++k) {
      visible += !visible_tiles(shard(LayoutKind::contiguous, {16}, 4, q),
                                shard(LayoutKind::contiguous, {16}, 4, k), {16}, {.right = 0})
                      .empty();
    }
  }
  EXPECT_EQ(visible, 10);
}

TEST(FlopsTest, PairsInClosedFormAreThoseOfTheTiles) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < trials(400); ++trial) {
    Problem problem;
    problem.sequence = random_sequence(random, 9, 60);
    problem.mask = random_mask(random);
    const Shard whole = {{0, 1, problem.sequence.length}};
    const Shard mine = trial % 2 ? random_shard(random, 0, problem.sequence.length)
                                 : shard(LayoutKind::striped, problem.sequence, 5, trial % 5);
    EXPECT_EQ(visible_pairs(mine, problem),
              visible_pairs(visible_tiles(mine, whole, problem.sequence, problem.mask)))
        << name(problem.mask);
  }
}

// Each of four ranks has two runs of a document, but for those that go on in the next one.
TEST(RequireFewTilesTest, CountsTheRunsThatZigzagLeaves) {
  const Sequence packed{4800, std::vector<std::int64_t>(600, 8)};
  const Mask causal{.right = 0};
  EXPECT_THROW(require_few_tiles(LayoutKind::zigzag, packed, causal, 4), Error);
  require_few_tiles(LayoutKind::zigzag, packed, {.documents = true}, 4);
  require_few_tiles(LayoutKind::zigzag, packed, causal, 1);  // they all do
  require_few_tiles(LayoutKind::striped, packed, causal, 4);
}

TEST(FlopsTest, HugeBoundsDoNotWrap) {
  Problem problem;
  problem.sequence = {.length = 100, .documents = {40, 50}};
  problem.mask = {.left = INT64_MAX, .right = INT64_MAX};
  EXPECT_EQ(visible_pairs({{0, 3, 34}}, problem), 30 * 90);  // tokens 90 and on are padding
  problem.mask.right = 0;
  EXPECT_EQ(visible_pairs({{0, 1, 100}}, problem), 45 * 91);
}

TEST(FlopsTest, BillionsOfTokensDoNotWrap) {
  Problem problem;
  problem.shape = {.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 1, .value_dim = 1};
  const std::int64_t tokens = std::int64_t{1} << 33;
  problem.sequence = {.length = tokens};
  EXPECT_EQ(forward_flops(problem), 4 * std::ldexp(1, 66));
  EXPECT_EQ(visible_pairs({{0, 1, tokens}}, problem), INT64_MAX) << "as many as it can say";
  problem.mask = {.right = 0};
  EXPECT_EQ(forward_flops(problem), 4 * (std::ldexp(1, 65) + std::ldexp(1, 32)));
  EXPECT_EQ(visible_pairs({{tokens / 2, tokens / 4, 2}}, problem), tokens / 4 * 5 + 2);
}

TEST(FlopsTest, CausalForwardAndBackwardAreAsPublished) {
  Problem problem;
  problem.shape = {.batch = 1, .heads = 32, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
  problem.sequence = {.length = 8192};
  problem.mask = {.right = 0};
  EXPECT_NEAR(forward_flops(problem) * 1e-12, 0.5498, 5e-5);
  EXPECT_NEAR(backward_flops(problem) * 1e-12, 1.3746, 5e-5);
  problem.mask = {};
  EXPECT_EQ(forward_flops(problem), 4.0 * 8192 * 8192 * 32 * 128);
  problem.shape.head_dim = 192;  // q.k, ds k and ds q are that long; d_out.v and p d_out are not
  EXPECT_EQ(forward_flops(problem), 2.0 * 8192 * 8192 * 32 * (192 + 128));
  EXPECT_EQ(backward_flops(problem), 2.0 * 8192 * 8192 * 32 * (3 * 192 + 2 * 128));
}

}  // namespace
}  // namespace ringspan::attention
