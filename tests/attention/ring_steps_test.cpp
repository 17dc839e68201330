// SPDX-License-Identifier: Apache-2.0
// What a plan is to send, as data: checked for pairing between ranks and for sizes, without
// sending.
#include "attention/schedules/ring_steps.hpp"

#include <gtest/gtest.h>

#include "attention/schedules/head_split.hpp"
#include "attention/schedules/qkv_row.hpp"
#include "attention/schedules/row_exchange.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using AllSteps = std::vector<std::vector<RingStep>>;  // [rank][step]

AllSteps steps_of_all(const Problem& problem, LayoutKind layout, int ranks) {
  AllSteps all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(ring_steps(problem, layout, ranks, rank));
  }
  return all;
}

/// Every message of a step has its receiver expect it, and nothing else is expected.
void expect_paired(const AllSteps& all, std::size_t s) {
  const int ranks = static_cast<int>(all.size());
  const int step = static_cast<int>(s);
  std::int64_t gradients_sent = 0, gradients_expected = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const RingStep& mine = all[rank][s];
    EXPECT_EQ(mine.sent, all[(rank + 1) % ranks][s].received);
    gradients_expected += mine.gradient.received + mine.gradient.home;
    gradients_sent += mine.gradient.sent;
    if (mine.gradient.sent == 0) continue;
    const int owner = (rank - step + ranks) % ranks, to = mine.gradient.sent_to;
    const GradientRing::Move& theirs = all[to][s].gradient;
    if (step > 0 && to == owner) {
      EXPECT_EQ(mine.gradient.sent, theirs.home);
      EXPECT_EQ(theirs.home_from, rank);
    } else {
      EXPECT_EQ(to, (rank + 1) % ranks);
      EXPECT_EQ(mine.gradient.sent, theirs.received);
    }
  }
  EXPECT_EQ(gradients_sent, gradients_expected);
}

TEST(RingStepsTest, EverySendHasItsReceive) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const char* mask : {"full", "causal", "window:3", "window:2:9", "documents+causal"}) {
      for (const LayoutKind layout :
           {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
        for (const std::int64_t length : {1, 5, 16, 41}) {
          SCOPED_TRACE(concat(name(layout), ", ", mask, ", ", length, " tokens, ", ranks));
          Problem problem;
          problem.mask = parse_mask(mask);
          problem.sequence = {length, {length / 3, 0, length / 2}};
          const AllSteps all = steps_of_all(problem, layout, ranks);
          for (const auto& steps : all) ASSERT_EQ(steps.size(), all[0].size());
          for (std::size_t s = 0; s < all[0].size(); ++s) expect_paired(all, s);
        }
      }
    }
  }
}

TEST(RingStepsTest, EveryVisiblePairOfTokensMeetsOnce) {
  Problem problem;
  problem.mask = parse_mask("window:9:2");
  problem.sequence.length = 67;
  const Shard everything{{0, 1, 67}};
  const std::int64_t pairs =
      visible_pairs(visible_tiles(everything, everything, problem.sequence, problem.mask));
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const LayoutKind layout :
         {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
      std::int64_t met = 0;
      for (const auto& steps : steps_of_all(problem, layout, ranks)) {
        for (const RingStep& step : steps) met += visible_pairs(step.tiles);
      }
      EXPECT_EQ(met, pairs) << name(layout) << " on " << ranks;
    }
  }
}

// A window reaches only the next rank, so two steps are enough however many ranks there are.
TEST(RingStepsTest, TheLoopEndsWithTheLongestJourney) {
  Problem problem;
  problem.mask = parse_mask("window:5");
  problem.sequence.length = 256;
  EXPECT_EQ(ring_steps(problem, LayoutKind::contiguous, 16, 3).size(), 2u);
  EXPECT_EQ(ring_steps(problem, LayoutKind::striped, 16, 3).size(), 6u);
  problem.mask = parse_mask("full");
  EXPECT_EQ(ring_steps(problem, LayoutKind::contiguous, 16, 3).size(), 16u);
}

// Around the limit of 32 bits, in bytes and in elements; no memory is touched.
TEST(PlanSizesTest, AreExactBeyond32Bits) {
  for (const std::int64_t tokens : {(1ll << 31) - 1, 1ll << 31, (1ll << 31) + 1}) {
    Problem problem;
    problem.shape = {.head_dim = 1, .value_dim = 1, .dtype = DType::bf16};
    problem.sequence.length = 2 * tokens;
    require_valid(problem);
    const RingStep step = ring_steps(problem, LayoutKind::contiguous, 2, 1)[0];
    EXPECT_EQ(step.sent, 4 * tokens);
    EXPECT_EQ(step.gradient.sent, 8 * tokens);
    EXPECT_EQ(visible_pairs(step.tiles), tokens * tokens);

    const KvFormat format{problem.shape, DType::bf16};
    EXPECT_EQ(format.bytes(tokens) - format.k_bytes(tokens), 2 * tokens);
    std::byte base{};
    const KvBlock block = format.block(&base, tokens);
    EXPECT_EQ(static_cast<std::byte*>(block.v.data) - &base, 2 * tokens);
    EXPECT_EQ(block.k.offset(0, tokens - 1, 0), tokens - 1);

    const RowExchange::Sizes sizes{2, {tokens, tokens + 1}, {6, 10}};
    EXPECT_EQ(sizes.token_side_bytes(1), 2 * (tokens + 1) * 16);
    EXPECT_EQ(sizes.head_side_bytes(1), 2 * (2 * tokens + 1) * 10);
    const TensorView rows = PackedRows{&base, 16, 2, tokens}.tensor(6, DType::bf16, 1, 2);
    EXPECT_EQ(rows.offset(1, tokens - 1, 0, 1), 8 * (2 * tokens - 1) + 1);
  }
}

TEST(HeadSplitTest, SharesAreWholeGroupsThatCoverTheHeads) {
  for (int kv_heads = 1; kv_heads <= 8; ++kv_heads) {
    for (int group = 1; group <= 4; ++group) {
      const Shape shape{.heads = kv_heads * group, .kv_heads = kv_heads};
      for (int ranks = 1; ranks <= shape.heads; ++ranks) {
        SCOPED_TRACE(concat(shape.heads, "/", kv_heads, " heads on ", ranks));
        std::int64_t next = 0;
        for (const auto& [heads, kv] : split_heads(shape, ranks)) {
          EXPECT_EQ(heads.first, next);
          next += heads.count;
          ASSERT_GE(kv.count, 1);
          ASSERT_GE(heads.count, kv.count);
          ASSERT_EQ(heads.count % kv.count, 0);
          for (std::int64_t h = 0; h < heads.count; ++h) {  // local mapping = global mapping
            EXPECT_EQ(kv.first + h / (heads.count / kv.count), (heads.first + h) / group);
          }
        }
        EXPECT_EQ(next, shape.heads);
      }
      EXPECT_THROW(split_heads(shape, static_cast<int>(shape.heads) + 1), Error);
    }
  }
}

TEST(HeadSplitTest, CopiesOfAKvHeadAreNeighbours) {
  std::vector<std::int64_t> kv_head;
  for (const HeadShare& share : split_heads({.heads = 16, .kv_heads = 2}, 4)) {
    kv_head.push_back(share.kv_heads.first);
  }
  EXPECT_EQ(kv_head, (std::vector<std::int64_t>{0, 0, 1, 1}));
}

// bf16 queries with copied KV heads, whose gradients are fp32: everything stays aligned.
TEST(QkvRowTest, IsAlignedForEveryHeadDim) {
  for (const int head_dim : {1, 5, 6, 64}) {
    const Shape shape{
        .heads = 3, .kv_heads = 1, .head_dim = head_dim, .value_dim = 2, .dtype = DType::bf16};
    const QkvRow row(shape, {{0, 3}, {0, 1}}, DType::f32);
    EXPECT_EQ(row.v_offset(), 4 * head_dim);
    EXPECT_EQ(row.q_offset(), 4 * head_dim + 8);
    EXPECT_EQ(row.bytes() % 4, 0);
    EXPECT_LT(row.bytes() - (row.q_offset() + 6 * head_dim), 4);
  }
}

}  // namespace
}  // namespace ringspan::attention
