// SPDX-License-Identifier: Apache-2.0
// What the transport counted against the closed forms, exactly; and the memory that plans hold.
#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace {

/// What one rank did in a forward and a backward pass.
struct Usage {
  Traffic forward, backward;
  std::int64_t bytes_copied = 0;
  std::int64_t scratch = 0;    // bytes that the plan and its Saved hold
  std::int64_t allocated = 0;  // bytes that the passes added to that, at any time
};

Traffic difference(const comm::Traffic& after, const comm::Traffic& before) {
  return {after.bytes_sent - before.bytes_sent, after.messages_sent - before.messages_sent};
}

Usage measure(const comm::Communicator& comm, Schedule& schedule, const Problem& problem,
              const OracleInputs& inputs, bool with_lse) {
  comm::Device& device = comm.device();
  const RankTensors tensors(device, problem, schedule.shard(problem.sequence), inputs);
  Outputs outputs = tensors.outputs();
  if (!with_lse) outputs.lse = {};

  const std::int64_t before_plan = device.memory().current;
  const std::unique_ptr<Plan> plan = schedule.plan(problem);
  const std::unique_ptr<Saved> saved = plan->make_saved();
  const std::int64_t planned = device.memory().current;
  device.reset_peak();
  const comm::Traffic start = comm.traffic();
  plan->forward(tensors.inputs(), outputs, saved.get());
  const comm::Traffic middle = comm.traffic();
  plan->backward(tensors.inputs(), outputs, *saved, tensors.d_out, tensors.gradients());
  const comm::Traffic end = comm.traffic();
  return {difference(middle, start), difference(end, middle), end.bytes_copied - start.bytes_copied,
          planned - before_plan, device.memory().peak - planned};
}

/// What one rank used under one schedule.
using Check = std::function<void(const NamedSchedule& schedule, int rank, const Usage& used)>;

/// Checks every rank under every schedule.
void check_usage(const std::vector<NamedSchedule>& schedules, const Problem& problem,
                 const comm::LaunchOptions& options, const Check& check, bool with_lse = false) {
  const OracleInputs inputs = random_inputs(problem, 1);
  comm::test::launch(options, [&](const comm::Communicator& comm) {
    const std::unique_ptr<Kernels> kernels = make_kernels("null", comm.device());
    for (const NamedSchedule& named : schedules) {
      SCOPED_TRACE(concat(describe(named), ", rank ", comm.rank(), " of ", options.ranks, ", ",
                          describe(problem)));
      const auto schedule = make_schedule(named.name, comm, *kernels, named.options);
      check(named, comm.rank(), measure(comm, *schedule, problem, inputs, with_lse));
    }
  });
}

Shape shape(std::int64_t heads, std::int64_t kv_heads, DType dtype = DType::f32) {
  return {.batch = 2,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 3,
          .value_dim = 5,
          .dtype = dtype};
}

std::vector<NamedSchedule> legal_schedules(int ranks, std::int64_t heads) {
  std::vector<NamedSchedule> legal;
  for (const NamedSchedule& schedule : all_schedules(ranks)) {
    if (ulysses_degree(schedule, ranks) <= heads) legal.push_back(schedule);
  }
  return legal;
}

void expect_closed_forms(const Problem& problem, int ranks, bool with_lse = false) {
  const Check check = [&](const NamedSchedule& schedule, int rank, const Usage& used) {
    const auto& [name, options] = schedule;
    EXPECT_EQ(used.forward, forward_traffic(name, options, problem, ranks, rank, with_lse));
    EXPECT_EQ(used.backward, backward_traffic(name, options, problem, ranks, rank));
    EXPECT_EQ(used.allocated, 0);
  };
  check_usage(legal_schedules(ranks, problem.shape.heads), problem,
              {.ranks = ranks, .deadline = 20}, check, with_lse);
}

TEST(TrafficTest, EqualsTheClosedFormsForEveryMaskAndLength) {
  for (const char* mask : {"full", "causal", "window:40", "window:7:3", "window:2", "documents",
                           "documents+causal+window:3:0"}) {
    for (const std::int64_t length : {1, 7, 29, 96}) {
      for (const int ranks : rank_counts()) {
        expect_closed_forms(make_problem(mask, length, shape(8, 4)), ranks);
      }
    }
  }
}

TEST(TrafficTest, EqualsTheClosedFormsForEveryHeadCountAndDtype) {
  for (const auto& [heads, kv_heads] :
       std::vector<std::pair<int, int>>{{4, 4}, {4, 2}, {4, 1}, {6, 3}, {7, 7}, {8, 2}}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      for (const int ranks : rank_counts()) {
        expect_closed_forms(make_problem("causal", 29, shape(heads, kv_heads, dtype)), ranks);
      }
    }
  }
}

TEST(TrafficTest, CountsLseAndSinks) {
  Problem problem = make_problem("causal", 29, shape(6, 3));
  problem.sinks = true;
  for (const int ranks : {1, 2, 3, 4, 6}) {
    if (!comm::test::enough_processes(ranks)) continue;
    expect_closed_forms(problem, ranks, /*with_lse=*/true);
  }
}

// Even sizes and a full mask, as the papers count: B = 2, S = 96, D + D' = 8, 4 bytes.
TEST(TrafficTest, EqualsTheFormulasOfThePapers) {
  const std::int64_t b = 2, s = 96, h = 8, g = 4, d = 8, e = 4;
  const Problem problem = make_problem("full", s, shape(h, g));
  for (const std::int64_t p : {2, 4, 8}) {
    const int ranks = static_cast<int>(p);
    const std::int64_t kv = b * (s / p) * g * d * e, copies = std::max(g, p);
    EXPECT_EQ(forward_traffic("ring", {}, problem, ranks, 1), (Traffic{(p - 1) * kv, p - 1}));
    EXPECT_EQ(backward_traffic("ring", {}, problem, ranks, 1),
              (Traffic{(p - 1) * kv + p * kv, 2 * p - 1}));
    EXPECT_EQ(forward_traffic("all_gather_kv", {}, problem, ranks, 1),
              (Traffic{(p - 1) * kv, p - 1}));
    EXPECT_EQ(backward_traffic("all_gather_kv", {}, problem, ranks, 1),
              (Traffic{2 * (p - 1) * kv, 2 * (p - 1)}));
    const Traffic all_to_alls{(p - 1) * b * (s / p) * (h + copies) * d * e / p, 2 * (p - 1)};
    EXPECT_EQ(forward_traffic("ulysses", {}, problem, ranks, 1), all_to_alls);
    EXPECT_EQ(backward_traffic("ulysses", {}, problem, ranks, 1), all_to_alls);
  }
}

TEST(TrafficTest, EqualsPublishedSizesAtAMillionTokens) {
  const auto problem = [](std::int64_t heads) {
    return make_problem("full", 1 << 20,
                        {.heads = heads,
                         .kv_heads = heads,
                         .head_dim = 128,
                         .value_dim = 128,
                         .dtype = DType::bf16});
  };
  EXPECT_EQ(forward_traffic("zigzag", {}, problem(32), 64, 5), (Traffic{63 * 268435456ll, 63}));
  EXPECT_EQ(forward_traffic("ulysses", {}, problem(64), 64, 5).bytes, (1ll << 30) / 64 * 63);
}

// What a causal mask never needs is not sent: on contiguous shards block o stops at the last rank.
TEST(TrafficTest, SkipsHopsThatNoLaterRankNeeds) {
  const Problem causal = make_problem("causal", 64, shape(1, 1));
  const std::int64_t kv = 2 * 16 * 8 * 4;
  for (int rank = 0; rank < 4; ++rank) {
    const int blocks = rank < 3 ? rank + 1 : 0;
    EXPECT_EQ(forward_traffic("ring", {}, causal, 4, rank), (Traffic{blocks * kv, blocks}));
  }
  // The last rank is the last to see every block but its own, and sends their gradients home.
  EXPECT_EQ(backward_traffic("ring", {}, causal, 4, 3), (Traffic{3 * kv, 3}));
  EXPECT_EQ(backward_traffic("ring", {}, causal, 4, 0), (Traffic{2 * kv, 2}));

  const Problem window = make_problem("window:5:0", 64, shape(1, 1));
  EXPECT_EQ(forward_traffic("ring", {}, window, 4, 1), (Traffic{kv, 1}));
  EXPECT_EQ(backward_traffic("ring", {}, window, 4, 1), (Traffic{3 * kv, 3}));
}

TEST(TrafficTest, KnowsNoClosedFormForWhatDependsOnNodes) {
  const Problem problem = make_problem("full", 64, shape(8, 8));
  const ScheduleOptions hierarchical{.all_to_all = comm::AllToAllAlgorithm::hierarchical};
  EXPECT_THROW(forward_traffic("ulysses", hierarchical, problem, 4, 0), Error);
  EXPECT_THROW(forward_traffic("usp", {}, problem, 4, 0), Error);
  EXPECT_THROW(forward_traffic("ring", {}, problem, 4, 4), Error);
}

// Equal tokens per rank: what a ring holds beyond the caller's tensors does not depend on the
// ranks.
TEST(PlanMemoryTest, OfARingDoesNotDependOnTheNumberOfRanks) {
  for (const comm::Hop hop : comm::test::hops()) {
    for (const char* schedule : {"ring", "striped", "zigzag"}) {
      SCOPED_TRACE(concat(schedule, hop == comm::Hop::copy ? ", copy" : ", reference"));
      // out, max, sum, lse, delta and dq of the queries; two blocks of K and V, three of gradients
      const std::int64_t rows = 2 * 24, queries = rows * 4 * 4 * (5 + 1 + 1 + 1 + 1 + 3);
      const std::int64_t block = rows * 2 * 8;
      const bool copies = hop == comm::Hop::copy;
      const std::int64_t blocks = block * 2 * (copies ? 2 : 1) + block * 4 * (copies ? 3 : 2);
      const Check check = [&](const NamedSchedule&, int, const Usage& used) {
        EXPECT_EQ(used.scratch, queries + blocks);
      };
      for (const int ranks : {2, 3, 5, 8}) {
        if (!comm::test::enough_processes(ranks)) continue;
        check_usage({{schedule}}, make_problem("full", 24 * ranks, shape(4, 2, DType::bf16)),
                    {.ranks = ranks, .hop = hop, .deadline = 20}, check);
      }
    }
  }
}

TEST(PlanMemoryTest, PassesAllocateNothingWhereHopsLend) {
  for (const char* mask : {"full", "causal", "documents+window:3:1"}) {
    for (const int ranks : {1, 2, 3, 5}) {
      Problem problem = make_problem(mask, 43, shape(6, 3));
      problem.sinks = true;
      check_usage(
          legal_schedules(ranks, 6), problem,
          {.ranks = ranks, .hop = comm::Hop::reference, .deadline = 20},
          [](const NamedSchedule&, int, const Usage& used) { EXPECT_EQ(used.allocated, 0); });
    }
  }
}

TEST(PlanMemoryTest, LentHopsOfARingCopyNothing) {
  for (const char* schedule : {"ring", "striped", "zigzag"}) {
    for (const char* mask : {"full", "causal", "window:7:3"}) {
      const Problem problem = make_problem(mask, 61, shape(4, 2));
      for (const int ranks : {2, 3, 5}) {
        const comm::LaunchOptions lend{.ranks = ranks, .hop = comm::Hop::reference, .deadline = 20};
        check_usage({{schedule}}, problem, lend, [](const NamedSchedule&, int, const Usage& used) {
          EXPECT_EQ(used.bytes_copied, 0);
        });
      }
    }
  }
}

}  // namespace
}  // namespace ringspan::attention
