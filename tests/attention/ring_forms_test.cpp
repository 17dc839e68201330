// SPDX-License-Identifier: Apache-2.0
// Rings with an inner and an outer ring, rings both ways, and the two forms of the backward pass:
// what is true of them beyond what every schedule is tested for.
#include <algorithm>
#include <numeric>

#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace ring_forms_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr BackwardForm kForms[] = {BackwardForm::kv, BackwardForm::q};

#ifdef RINGSPAN_SANITIZED  // slow, and looks for what any run can show
const std::vector<const char*> kMasks{"causal"};
const std::vector<std::pair<int, int>> kLongRings{{9, 3}};  // ranks, and of an inner ring
const std::vector<int> kRankCounts{5};
#else
const std::vector<const char*> kMasks{"full", "causal", "window:7:3", "documents+causal"};
const std::vector<std::pair<int, int>> kLongRings{{9, 3}, {12, 3}, {12, 4}};
const std::vector<int> kRankCounts{2, 5, 8};
#endif

/// As on a plan of a training step: forward and backward twice, each compared.
testing::AssertionResult matches_twice(const NamedSchedule& schedule, const Problem& problem,
                                       const comm::LaunchOptions& options) {
  const OracleInputs inputs = random_inputs(problem, 3);
  const OracleResults expected = oracle(problem, inputs);
  return comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("cpu", comm.device());
    const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
    const RankTensors t(comm.device(), problem, made->shard(problem.sequence), inputs);
    const auto plan = made->plan(problem);
    const auto saved = plan->make_saved();
    testing::AssertionResult result = testing::AssertionSuccess();
    for (int pass = 0; pass < 2; ++pass) {
      plan->forward(t.inputs(), t.outputs(), saved.get());
      plan->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients());
      if (result) result = matches(t, expected, problem);
    }
    return result;
  });
}

// Three places in both rings, because where next is previous faults hide.
TEST(DoubleRingScheduleTest, MatchesTheOracleWhereBothRingsAreLong) {
  for (const auto& [ranks, inner] : kLongRings) {
    if (!comm::test::enough_processes(ranks)) continue;
    for (const char* mask : kMasks) {
      for (const LayoutKind layout : {LayoutKind::contiguous, LayoutKind::zigzag}) {
        for (const BackwardForm form : kForms) {
          const Problem problem = make_problem(
              mask, 61, {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = 5});
          const NamedSchedule schedule{"double_ring",
                                       {.layout = layout, .inner_ring = inner, .backward = form}};
          for (const comm::Hop hop : comm::test::hops()) {
            EXPECT_TRUE(
                matches_twice(schedule, problem, {.ranks = ranks, .hop = hop, .deadline = 20}))
                << describe(schedule) << " on " << ranks << ", " << describe(problem);
          }
        }
      }
    }
  }
}

TEST(BidirectionalRingScheduleTest, MatchesTheOracleInEveryPassOfAPlan) {
  for (const int ranks : kRankCounts) {
    if (!comm::test::enough_processes(ranks)) continue;
    for (const char* mask : kMasks) {
      for (const LayoutKind layout : {LayoutKind::contiguous, LayoutKind::striped}) {
        const Problem problem = make_problem(
            mask, 61, {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = 5});
        const NamedSchedule schedule{"bidirectional_ring", {.layout = layout}};
        for (const comm::Hop hop : comm::test::hops()) {
          EXPECT_TRUE(
              matches_twice(schedule, problem, {.ranks = ranks, .hop = hop, .deadline = 20}))
              << describe(schedule) << " on " << ranks << ", " << describe(problem);
        }
      }
    }
  }
}

/// Bytes that a plan and its Saved hold. `tokens`: of each rank.
std::int64_t scratch(const NamedSchedule& schedule, int ranks, comm::Hop hop, std::int64_t tokens) {
  const Problem problem = make_problem(
      "full", tokens * ranks,
      {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 3, .value_dim = 5, .dtype = DType::bf16});
  std::vector<std::int64_t> held(ranks);
  comm::launch("threads", {.ranks = ranks, .hop = hop, .deadline = 20},
               [&](const comm::Communicator& comm) {
                 const auto kernels = make_kernels("null", comm.device());
                 const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
                 const std::int64_t before = comm.device().memory().current;
                 const auto plan = made->plan(problem);
                 const auto saved = plan->make_saved();
                 held[comm.rank()] = comm.device().memory().current - before;
               });
  EXPECT_EQ(std::count(held.begin(), held.end(), held[0]), ranks) << describe(schedule);
  return held[0];
}

// Equal tokens per rank. Of rows of 2 x 24 tokens: out, max, sum, lse and delta of 4 heads as
// accumulators, dq or dk and dv of 4 or 2 heads, and the blocks on their way.
TEST(RingFormMemoryTest, DoesNotDependOnTheNumberOfRanks) {
  const std::int64_t rows = 2 * 24, queries = rows * 4 * 4 * (5 + 1 + 1 + 1 + 1);
  const std::int64_t dq = rows * 4 * 3 * 4, dkv = rows * 2 * 8 * 4;
  const std::int64_t kv = rows * 2 * 8 * 2, q = rows * 4 * (8 * 2 + 2 * 4);
  for (const comm::Hop hop : {comm::Hop::copy, comm::Hop::reference}) {
    SCOPED_TRACE(hop == comm::Hop::copy ? "copy" : "reference");
    const int blocks = hop == comm::Hop::copy ? 2 : 1, gradients = hop == comm::Hop::copy ? 3 : 2;
    const NamedSchedule q_travels{"zigzag", {.backward = BackwardForm::q}};
    const NamedSchedule bidirectional{"bidirectional_ring"};
    for (const int ranks : {3, 5, 8}) {
      EXPECT_EQ(scratch(q_travels, ranks, hop, 24),
                queries + dkv + blocks * (kv + q) + gradients * dq);
      EXPECT_EQ(scratch(bidirectional, ranks, hop, 24),
                queries + dq + dkv + 2 * blocks * kv + 2 * gradients * dkv);
    }
    for (const auto& [ranks, inner] : {std::pair(4, 2), std::pair(8, 4), std::pair(9, 3)}) {
      EXPECT_EQ(scratch({"double_ring", {.inner_ring = inner}}, ranks, hop, 24),
                queries + dq + 2 * blocks * kv + 2 * gradients * dkv);
    }
  }
}

/// The busiest rank's.
Traffic most(const std::vector<Traffic>& ranks) {
  Traffic most;
  for (const Traffic& rank : ranks) {
    most.bytes = std::max(most.bytes, rank.bytes);
    most.messages = std::max(most.messages, rank.messages);
    most.inter_node_bytes = std::max(most.inter_node_bytes, rank.inter_node_bytes);
  }
  return most;
}

std::int64_t total_bytes(const std::vector<Traffic>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [](std::int64_t sum, const Traffic& rank) { return sum + rank.bytes; });
}

comm::World world(int ranks, int ranks_per_node) {
  return {comm::even_places(ranks, ranks_per_node)};
}

// LoongTrain's count: all of a flat ring's blocks leave a node through one rank, a double ring's
// through all of them. B = 2 x 6 tokens x 2 heads x 8 x 4 bytes.
TEST(DoubleRingScheduleTest, SpreadsWhatLeavesANodeOverItsRanks) {
  const Problem problem = make_problem(
      "full", 6 * 32, {.batch = 2, .heads = 2, .kv_heads = 2, .head_dim = 3, .value_dim = 5});
  const std::int64_t block = 2 * 6 * 2 * 8 * 4;
  const Traffic ring = most(forward_traffic("zigzag", {}, problem, world(32, 8)));
  EXPECT_EQ(ring, (Traffic{31 * block, 31, 31 * block}));
  const Traffic two = most(forward_traffic("double_ring", {}, problem, world(32, 8)));
  EXPECT_EQ(two, (Traffic{31 * block, 31, 3 * block}));
  // A gradient is home after 8 hops in each of 4 nodes, and 4 between them.
  const Traffic back = most(backward_traffic("double_ring", {}, problem, world(32, 8)));
  EXPECT_EQ(back, (Traffic{(31 + 32 + 4) * block, 31 + 32 + 4, (3 + 4) * block}));
}

TEST(BidirectionalRingScheduleTest, SendsAsManyBlocksAsARing) {
  const Problem problem = make_problem("full", 6 * 8, {.heads = 2, .kv_heads = 2});
  const std::int64_t block = 6 * 2 * 128 * 4;
  EXPECT_EQ(most(forward_traffic("bidirectional_ring", {}, problem, world(8, 0))),
            (Traffic{7 * block, 7}));
  EXPECT_EQ(most(backward_traffic("bidirectional_ring", {}, problem, world(8, 0))),
            (Traffic{(7 + 9) * block, 7 + 9}));
  // A rank before is the rank behind: one way, as a ring.
  EXPECT_EQ(backward_traffic("bidirectional_ring", {}, problem, world(2, 0), 1),
            (Traffic{(1 + 2) * 4 * block, 1 + 2}));
}

// BurstAttention's count in bytes, of a bf16 token and head of size d: 12 d that travel as K and V,
// 8 d + 8 as queries; with fewer KV heads the former are fewer.
TEST(BackwardFormTest, EqualsTheFormulaOfThePaper) {
  const std::int64_t p = 8, c = 16, h = 8, d = 64;
  for (const std::int64_t g : {8, 4, 1}) {
    const Problem problem = make_problem(
        "full", p * c,
        {.heads = h, .kv_heads = g, .head_dim = d, .value_dim = d, .dtype = DType::bf16});
    const auto bytes = [&](BackwardForm form) {
      return most(backward_traffic("ring", {.backward = form}, problem, world(p, 0))).bytes;
    };
    const std::int64_t kv = (p - 1) * c * g * 2 * d * 2 + p * c * g * 2 * d * 4;
    const std::int64_t q = (p - 1) * c * h * (2 * d * 2 + 2 * 4) + p * c * h * d * 4;
    EXPECT_EQ(bytes(BackwardForm::kv), kv);
    EXPECT_EQ(bytes(BackwardForm::q), q);
    EXPECT_EQ(bytes(BackwardForm::automatic), g == h ? q : kv);
  }
}

TEST(BackwardFormTest, AutomaticIsWhicheverSendsFewerBytes) {
  int as_q = 0, as_kv = 0;
  for (const char* mask : {"full", "causal", "window:9", "window:0:9", "documents+causal"}) {
    for (const std::int64_t length : {5, 61}) {
      for (const auto& [heads, kv_heads] : {std::pair(4, 4), std::pair(6, 3), std::pair(8, 2)}) {
        for (const char* schedule : {"ring", "zigzag", "double_ring"}) {
          const Problem problem = make_problem(
              mask, length, {.heads = heads, .kv_heads = kv_heads, .head_dim = 8, .value_dim = 24});
          const auto bytes = [&](BackwardForm form) {
            return total_bytes(
                backward_traffic(schedule, {.backward = form}, problem, world(6, 3)));
          };
          const std::int64_t kv = bytes(BackwardForm::kv), q = bytes(BackwardForm::q);
          EXPECT_EQ(bytes(BackwardForm::automatic), std::min(kv, q));
          q < kv ? ++as_q : ++as_kv;
        }
      }
    }
  }
  EXPECT_GT(as_q, 0);
  EXPECT_GT(as_kv, 0);
}

std::string refusal(const NamedSchedule& schedule, comm::LaunchOptions options) {
  const Problem problem = make_problem("causal", 16, {.heads = 4, .kv_heads = 2});
  options.deadline = 5;
  try {
    run(schedule, problem, random_inputs(problem, 1), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(DoubleRingScheduleTest, IllegalInnerRingsAreRefusedWithTheLegalOnes) {
  EXPECT_THAT(refusal({"double_ring", {.inner_ring = 3}}, {.ranks = 4}),
              AllOf(HasSubstr("inner_ring of 3"), HasSubstr("legal are 1, 2, 4")));
  EXPECT_THAT(refusal({"double_ring", {.inner_ring = -2}}, {.ranks = 4}),
              HasSubstr("inner_ring of -2"));
  EXPECT_THAT(refusal({"double_ring"}, {.ranks = 5, .ranks_per_node = 2}),
              HasSubstr("inner_ring must be given, since nodes have 2 or 1 ranks"));
  EXPECT_THAT(refusal({"usp", {.ulysses_degree = 2, .inner_ring = 4}}, {.ranks = 4}),
              AllOf(HasSubstr("usp: an inner_ring of 4"), HasSubstr("2 ranks of its ring"),
                    HasSubstr("legal are 1, 2")));
}

TEST(RingFormTest, HasNoClosedFormForWhatAPlanRefuses) {
  Problem problem = make_problem("causal", 4800, {.heads = 4});
  problem.sequence.documents.assign(600, 8);
  for (const char* schedule : {"zigzag", "bidirectional_ring", "all_gather_kv"}) {
    EXPECT_THROW(forward_traffic(schedule, {}, problem, world(4, 0), 0), Error) << schedule;
  }
  EXPECT_THROW(forward_traffic("usp", {.ulysses_degree = 2}, problem, world(8, 0), 0), Error);
}

TEST(RingFormTest, OptionsThatAScheduleDoesNotHaveAreRefusedByName) {
  EXPECT_THAT(refusal({"zigzag", {.inner_ring = 2}}, {.ranks = 4}), HasSubstr("inner_ring"));
  EXPECT_THAT(refusal({"all_gather_kv", {.backward = BackwardForm::q}}, {.ranks = 2}),
              HasSubstr("backward"));
  EXPECT_THAT(refusal({"bidirectional_ring", {.backward = BackwardForm::automatic}}, {.ranks = 2}),
              HasSubstr("backward"));
}

}  // namespace ring_forms_test
}  // namespace ringspan::attention
