// SPDX-License-Identifier: Apache-2.0
#include "attention/token_layout.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/random_sequence.hpp"

namespace ringspan::attention {
namespace token_layout_test {

using testing::ElementsAre;
using TokenRun = Run;  // inside a test, Run is a member of testing::Test

constexpr LayoutKind kLayouts[] = {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag};

std::vector<std::int64_t> token_counts(LayoutKind kind, const Sequence& sequence, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(tokens(shard(kind, sequence, ranks, rank)));
  }
  return counts;
}

std::int64_t spread(const std::vector<std::int64_t>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low;
}

/// Causal work of each rank inside the documents: how many keys its tokens see.
std::vector<std::int64_t> causal_work(const Sequence& sequence, int ranks) {
  std::vector<std::int64_t> work(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Shard tokens = shard(LayoutKind::zigzag, sequence, ranks, rank);
    for (const auto& [document, position] : document_positions(tokens, sequence)) {
      if (document >= 0) work[rank] += position + 1;
    }
  }
  return work;
}

TEST(TokenLayoutTest, EveryTokenIsOnExactlyOneRank) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < trials(300); ++trial) {
    const Sequence sequence = random_sequence(random, 8, trial % 2 ? 20 : 100);
    for (const LayoutKind kind : kLayouts) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        std::vector<std::int64_t> all;
        const std::vector<Shard> of_all = shards(kind, sequence, ranks);
        for (int rank = 0; rank < ranks; ++rank) {
          const Shard mine = shard(kind, sequence, ranks, rank);
          EXPECT_EQ(mine, of_all[rank]);
          const auto held = positions(mine);
          EXPECT_EQ(tokens(mine), static_cast<std::int64_t>(held.size()));
          EXPECT_TRUE(std::is_sorted(held.begin(), held.end()));
          for (const TokenRun& run : mine) EXPECT_TRUE(run.count > 0 && run.stride > 0);
          all.insert(all.end(), held.begin(), held.end());
        }
        std::sort(all.begin(), all.end());
        std::vector<std::int64_t> expected(sequence.length);
        std::iota(expected.begin(), expected.end(), 0);
        ASSERT_EQ(all, expected) << name(kind) << " on " << ranks;
      }
    }
  }
}

TEST(TokenLayoutTest, RanksDifferByAtMostOneTokenHoweverManyDocuments) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < trials(300); ++trial) {
    const Sequence sequence = random_sequence(random, trial % 3 ? 9 : 300, trial % 2 ? 5 : 90);
    for (const LayoutKind kind : kLayouts) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        ASSERT_LE(spread(token_counts(kind, sequence, ranks)), 1)
            << name(kind) << " on " << ranks << " ranks, trial " << trial;
      }
    }
  }
}

std::int64_t longest(const Sequence& sequence) {
  const auto& documents = sequence.documents;
  return documents.empty() ? sequence.length
                           : *std::max_element(documents.begin(), documents.end());
}

TEST(TokenLayoutTest, ZigzagBalancesCausalWorkOfAnyDocuments) {
  // To within a few rows of the longest document, however many documents there are; one token can
  // cost one such row.
  std::mt19937_64 random(3);
  for (int trial = 0; trial < trials(400); ++trial) {
    const Sequence sequence = random_sequence(random, trial % 3 ? 9 : 200, trial % 2 ? 12 : 300);
    for (int ranks = 1; ranks <= 9; ++ranks) {
      ASSERT_LE(spread(causal_work(sequence, ranks)), 3 * longest(sequence))
          << ranks << " ranks, trial " << trial;
    }
  }
}

TEST(TokenLayoutTest, ZigzagBalancesDocumentsInAnyPattern) {
  // A few lengths over and over: dealt out in a fixed pattern, the late tokens of document after
  // document would go to the same ranks.
  std::mt19937_64 random(4);
  for (int trial = 0; trial < trials(30); ++trial) {
    std::vector<std::int64_t> pattern(pick(random, 1, 5));
    for (std::int64_t& length : pattern) length = pick(random, 1, 40);
    Sequence sequence;
    for (std::size_t i = 0; i < 300; ++i) {
      sequence.documents.push_back(pattern[i % pattern.size()]);
      sequence.length += sequence.documents.back();
    }
    for (int ranks = 2; ranks <= 9; ++ranks) {
      ASSERT_LE(spread(causal_work(sequence, ranks)), 3 * longest(sequence))
          << ranks << " ranks, trial " << trial;
    }
  }
}

TEST(TokenLayoutTest, ContiguousPiecesFollowEachOther) {
  EXPECT_THAT(shard(LayoutKind::contiguous, {10}, 4, 0), ElementsAre(TokenRun{0, 1, 3}));
  EXPECT_THAT(shard(LayoutKind::contiguous, {10}, 4, 1), ElementsAre(TokenRun{3, 1, 3}));
  EXPECT_THAT(shard(LayoutKind::contiguous, {10}, 4, 3), ElementsAre(TokenRun{8, 1, 2}));
  EXPECT_THAT(shard(LayoutKind::contiguous, {2}, 4, 3), ElementsAre());
}

TEST(TokenLayoutTest, StripedTakesEveryRanksThToken) {
  EXPECT_THAT(shard(LayoutKind::striped, {10}, 4, 1), ElementsAre(TokenRun{1, 4, 3}));
  EXPECT_THAT(shard(LayoutKind::striped, {10}, 4, 3), ElementsAre(TokenRun{3, 4, 2}));
  EXPECT_THAT(shard(LayoutKind::striped, {3}, 4, 3), ElementsAre());
}

TEST(TokenLayoutTest, ZigzagPairsAnEarlyPieceWithALateOne) {
  EXPECT_THAT(positions(shard(LayoutKind::zigzag, {8}, 2, 0)), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(shard(LayoutKind::zigzag, {8}, 2, 1), ElementsAre(TokenRun{2, 1, 4}));
  // 2999 tokens on 4 ranks: seven pieces of 375, one of 374.
  EXPECT_THAT(shard(LayoutKind::zigzag, {2999}, 4, 0),
              ElementsAre(TokenRun{0, 1, 375}, TokenRun{2625, 1, 374}));
  EXPECT_THAT(shard(LayoutKind::zigzag, {2999}, 4, 1),
              ElementsAre(TokenRun{375, 1, 375}, TokenRun{2250, 1, 375}));
  EXPECT_THAT(shard(LayoutKind::zigzag, {2999}, 4, 3), ElementsAre(TokenRun{1125, 1, 750}));
}

TEST(TokenLayoutTest, ZigzagCutsEveryDocumentAndThePadding) {
  // Documents 8 and 5, padding 3, on 2 ranks. The extra tokens go to slots 0 (of the second
  // document) and 1, 2, 3 (of the padding).
  const Sequence sequence{.length = 16, .documents = {8, 5}};
  EXPECT_THAT(positions(shard(LayoutKind::zigzag, sequence, 2, 0)),
              ElementsAre(0, 1, 6, 7, 8, 9, 12, 15));
  EXPECT_THAT(positions(shard(LayoutKind::zigzag, sequence, 2, 1)),
              ElementsAre(2, 3, 4, 5, 10, 11, 13, 14));
}

TEST(TokenLayoutTest, HoldsAtPositionsBeyond32Bits) {
  const std::int64_t length = (std::int64_t{1} << 62) + 7;
  for (const LayoutKind kind : kLayouts) {
    EXPECT_LE(spread(token_counts(kind, {length}, 7)), 1);
    std::int64_t total = 0;
    for (const std::int64_t count : token_counts(kind, {length}, 7)) total += count;
    EXPECT_EQ(total, length);
  }
  EXPECT_THAT(shard(LayoutKind::contiguous, {std::int64_t{1} << 40}, 4, 3),
              ElementsAre(TokenRun{3 * (std::int64_t{1} << 38), 1, std::int64_t{1} << 38}));
}

TEST(TokenLayoutTest, PiecesCutAShardInStorageOrder) {
  const Shard whole = {{5, 3, 4}, {100, 1, 5}};  // 5 8 11 14 100 .. 104
  EXPECT_THAT(piece(whole, 2, 0), ElementsAre(TokenRun{5, 3, 4}, TokenRun{100, 1, 1}));
  EXPECT_THAT(piece(whole, 2, 1), ElementsAre(TokenRun{101, 1, 4}));
  EXPECT_THAT(piece(whole, 4, 1), ElementsAre(TokenRun{14, 3, 1}, TokenRun{100, 1, 1}));
  EXPECT_THAT(piece(whole, 11, 10), ElementsAre());
  for (int pieces = 1; pieces <= 12; ++pieces) {
    std::vector<std::int64_t> all;
    for (int i = 0; i < pieces; ++i) {
      const auto part = positions(piece(whole, pieces, i));
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all, positions(whole));
  }
}

TEST(TokenLayoutTest, DocumentPositionsStartAtZeroInEachDocument) {
  const Sequence sequence{.length = 9, .documents = {3, 0, 4}};
  std::vector<std::int64_t> documents, inside;
  for (const auto& [document, position] : document_positions({{1, 2, 4}, {8, 1, 1}}, sequence)) {
    documents.push_back(document);
    inside.push_back(position);
  }
  EXPECT_THAT(documents, ElementsAre(0, 2, 2, -1, -1));  // tokens 1 3 5 7 8
  EXPECT_THAT(inside, ElementsAre(1, 0, 2, 0, 1));
  EXPECT_EQ(document_positions({{4, 1, 1}}, {9}).at(0).position, 4);
}

TEST(TokenLayoutTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(require_valid(Sequence{-1}), Error);
  EXPECT_THROW(require_valid({10, {3, -1}}), Error);
  EXPECT_THROW(require_valid({10, {3, 8}}), Error);
  EXPECT_THROW(require_valid({10, {INT64_MAX, INT64_MAX}}), Error);
  EXPECT_NO_THROW(require_valid({10, {3, 0, 7, 0}}));
  EXPECT_THROW(shard(LayoutKind::zigzag, {10}, 0, 0), Error);
  EXPECT_THROW(shard(LayoutKind::zigzag, {10}, 2, 2), Error);
  EXPECT_THROW(shard(LayoutKind::zigzag, {10}, 2, -1), Error);
  EXPECT_THROW(piece({{0, 1, 3}}, 2, 2), Error);
}

TEST(TokenLayoutTest, NamesAreReadBack) {
  for (const LayoutKind kind : kLayouts) EXPECT_EQ(layout_kind(name(kind)), kind);
  try {
    layout_kind("stripes");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("contiguous, striped, zigzag"));
  }
}

}  // namespace token_layout_test
}  // namespace ringspan::attention
