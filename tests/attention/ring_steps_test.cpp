// SPDX-License-Identifier: Apache-2.0
// What a plan is to send, as data: checked for pairing between ranks and for sizes, without
// sending.
#include "attention/schedules/ring_steps.hpp"

#include <gtest/gtest.h>

#include "attention/schedules/bidirectional_steps.hpp"
#include "attention/schedules/head_split.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/qkv_row.hpp"
#include "attention/schedules/row_exchange.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace ring_steps_test {

using AllSteps = std::vector<RingSteps>;  // [rank]

/// What two ranks are to each other in a ring of inner rings.
struct Rings {
  int ranks, inner;

  int nodes() const { return ranks / inner; }
  int at(int node, int place) const {
    return (node + nodes()) % nodes() * inner + (place + inner) % inner;
  }
  int node(int rank) const { return rank / inner; }
  int place(int rank) const { return rank % inner; }
  int next_inside(int rank) const { return at(node(rank), place(rank) + 1); }
  int next_outside(int rank) const { return at(node(rank) + 1, place(rank)); }
};

AllSteps steps_of_all(const Problem& problem, LayoutKind layout, Rings rings,
                      Travelling travelling = Travelling::kv) {
  AllSteps all;
  for (int rank = 0; rank < rings.ranks; ++rank) {
    all.push_back(ring_steps(problem, layout, {rings.ranks, rank, rings.inner}, travelling));
  }
  return all;
}

/// Every gradient sent on one of the two rings is expected where it goes, and no other is.
template <typename MoveOf, typename RankAt>
void expect_paired(int ranks, const MoveOf& move_of, const RankAt& rank_at, const char* what) {
  std::int64_t sent = 0, expected = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const GradientRing::Move& mine = move_of(rank);
    sent += mine.sent;
    expected += mine.received + mine.home;
    if (mine.sent == 0) continue;
    const int to = rank_at(rank, mine.sent_to);
    const GradientRing::Move& theirs = move_of(to);
    const bool home = theirs.home > 0 && rank_at(to, theirs.home_from) == rank;
    EXPECT_EQ(mine.sent, home ? theirs.home : theirs.received) << what << ", rank " << rank;
  }
  EXPECT_EQ(sent, expected) << what;
}

/// Every message of a step has its receiver expect it, and nothing else is expected.
void expect_paired(const AllSteps& all, std::size_t s, Rings rings) {
  const auto hops = [&](int rank) { return all[rank].hops[s]; };
  for (int rank = 0; rank < rings.ranks; ++rank) {
    EXPECT_EQ(hops(rank).inner_hop.sent, hops(rings.next_inside(rank)).inner_hop.received);
    EXPECT_EQ(hops(rank).outer_hop.sent, hops(rings.next_outside(rank)).outer_hop.received);
    EXPECT_EQ(hops(rank).outer, hops(0).outer);
    EXPECT_EQ(hops(rank).inner, hops(0).inner);
    EXPECT_EQ(all[rank].steps[s].turn, hops(0).outer);
  }
  expect_paired(
      rings.ranks, [&](int rank) { return all[rank].steps[s].gradient; },
      [&](int rank, int place) { return rings.at(rings.node(rank), place); }, "inside");
  if (hops(0).inner > 0) return;
  const int turn = hops(0).outer;
  expect_paired(
      rings.ranks, [&](int rank) { return all[rank].turns[turn].move; },
      [&](int rank, int node) { return rings.at(node, rings.place(rank)); }, "outside");
}

/// One ring, and all that consist of several.
std::vector<Rings> all_rings(int most) {
  std::vector<Rings> rings;
  for (int ranks = 1; ranks <= most; ++ranks) {
    for (int inner = 2; inner < ranks; ++inner) {
      if (ranks % inner == 0) rings.push_back({ranks, inner});
    }
    rings.push_back({ranks, ranks});
  }
  return rings;
}

TEST(RingStepsTest, EverySendHasItsReceive) {
  for (const Rings& rings : all_rings(9)) {
    for (const char* mask : {"full", "causal", "window:3", "window:2:9", "documents+causal"}) {
      for (const LayoutKind layout :
           {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
        for (const std::int64_t length : {1, 5, 16, 41}) {
          for (const Travelling travelling : {Travelling::kv, Travelling::q}) {
            SCOPED_TRACE(concat(name(layout), ", ", mask, ", ", length, " tokens, ", rings.ranks,
                                " ranks, inner ring ", rings.inner,
                                travelling == Travelling::q ? ", q travels" : ""));
            Problem problem;
            problem.mask = parse_mask(mask);
            problem.sequence = {length, {length / 3, 0, length / 2}};
            const AllSteps all = steps_of_all(problem, layout, rings, travelling);
            for (const RingSteps& of : all) ASSERT_EQ(of.steps.size(), all[0].steps.size());
            for (std::size_t s = 0; s < all[0].steps.size(); ++s) expect_paired(all, s, rings);
          }
        }
      }
    }
  }
}

Problem windowed(std::int64_t length, std::string_view mask) {
  Problem problem;
  problem.mask = parse_mask(mask);
  problem.sequence.length = length;
  return problem;
}

TEST(RingStepsTest, EveryVisiblePairOfTokensMeetsOnce) {
  const Problem problem = windowed(67, "window:9:2");
  const Shard everything{{0, 1, 67}};
  const std::int64_t pairs =
      visible_pairs(visible_tiles(everything, everything, problem.sequence, problem.mask));
  for (const Rings& rings : all_rings(12)) {
    for (const LayoutKind layout :
         {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
      for (const Travelling travelling : {Travelling::kv, Travelling::q}) {
        std::int64_t met = 0;
        for (const RingSteps& of : steps_of_all(problem, layout, rings, travelling)) {
          for (const RingStep& step : of.steps) met += visible_pairs(step.tiles);
        }
        EXPECT_EQ(met, pairs) << name(layout) << " on " << rings.ranks << ", " << rings.inner;
      }
    }
  }
}

std::size_t step_count(const Problem& problem, LayoutKind layout, RingPlace place) {
  return ring_steps(problem, layout, place).steps.size();
}

// A window reaches only the next rank, so two steps are enough however many ranks there are.
TEST(RingStepsTest, TheLoopEndsWithTheLongestJourney) {
  const Problem window = windowed(256, "window:5"), full = windowed(256, "full");
  EXPECT_EQ(step_count(window, LayoutKind::contiguous, {16, 3}), 2u);
  EXPECT_EQ(step_count(window, LayoutKind::striped, {16, 3}), 6u);
  EXPECT_EQ(step_count(full, LayoutKind::contiguous, {16, 3}), 16u);
}

// Of each node the last rank's block goes to the first rank of the next one, which it comes to in
// the second step there.
TEST(RingStepsTest, EachInnerTurnEndsWithItsLongestJourney) {
  const Problem window = windowed(256, "window:5"), full = windowed(256, "full");
  EXPECT_EQ(step_count(window, LayoutKind::contiguous, {16, 3, 4}), 4u);
  EXPECT_EQ(step_count(full, LayoutKind::contiguous, {16, 3, 4}), 16u);
}

TEST(BidirectionalStepsTest, EverySendHasItsReceive) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const char* mask : {"full", "causal", "window:3", "window:2:9"}) {
      for (const std::int64_t length : {1, 5, 41}) {
        SCOPED_TRACE(concat(mask, ", ", length, " tokens on ", ranks));
        std::vector<std::vector<BidirectionalStep>> all;
        for (int rank = 0; rank < ranks; ++rank) {
          all.push_back(
              bidirectional_steps(windowed(length, mask), LayoutKind::contiguous, ranks, rank));
          ASSERT_EQ(all.back().size(), all[0].size());
        }
        const auto same = [](int, int rank) { return rank; };
        for (std::size_t s = 0; s < all[0].size(); ++s) {
          for (int rank = 0; rank < ranks; ++rank) {
            const int next = (rank + 1) % ranks;
            EXPECT_EQ(all[rank][s].sent.front, all[next][s].received.front);
            EXPECT_EQ(all[next][s].sent.back, all[rank][s].received.back);
          }
          const auto front = [&](int rank) { return all[rank][s].front.gradient; };
          const auto back = [&](int rank) { return all[rank][s].back.gradient; };
          expect_paired(ranks, front, same, "front");
          expect_paired(ranks, back, same, "back");
        }
      }
    }
  }
}

TEST(BidirectionalStepsTest, TakeHalfOfARing) {
  const Problem full = windowed(256, "full"), window = windowed(256, "window:5");
  for (const auto& [ranks, steps] : std::vector<std::pair<int, std::size_t>>{
           {1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 4}, {8, 5}, {16, 9}}) {
    EXPECT_EQ(bidirectional_steps(full, LayoutKind::zigzag, ranks, 0).size(), steps);
  }
  EXPECT_EQ(bidirectional_steps(window, LayoutKind::contiguous, 16, 3).size(), 2u);
}

TEST(BidirectionalStepsTest, EveryVisiblePairOfTokensMeetsOnce) {
  const Problem problem = windowed(67, "window:9:2");
  const Shard everything{{0, 1, 67}};
  const std::int64_t pairs =
      visible_pairs(visible_tiles(everything, everything, problem.sequence, problem.mask));
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const LayoutKind layout :
         {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
      std::int64_t met = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        for (const auto& step : bidirectional_steps(problem, layout, ranks, rank)) {
          met += visible_pairs(step.front.tiles) + visible_pairs(step.back.tiles);
        }
      }
      EXPECT_EQ(met, pairs) << name(layout) << " on " << ranks;
    }
  }
}

// Around the limit of 32 bits, in bytes and in elements; no memory is touched.
TEST(PlanSizesTest, AreExactBeyond32Bits) {
  for (const std::int64_t tokens : {(1ll << 31) - 1, 1ll << 31, (1ll << 31) + 1}) {
    Problem problem;
    problem.shape = {.head_dim = 1, .value_dim = 1, .dtype = DType::bf16};
    problem.sequence.length = 2 * tokens;
    require_valid(problem);
    const RingSteps ring = ring_steps(problem, LayoutKind::contiguous, {2, 1});
    EXPECT_EQ(ring.hops[0].inner_hop.sent, 4 * tokens);
    EXPECT_EQ(ring.steps[0].gradient.sent, 8 * tokens);
    EXPECT_EQ(visible_pairs(ring.steps[0].tiles), tokens * tokens);

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

}  // namespace ring_steps_test
}  // namespace ringspan::attention
