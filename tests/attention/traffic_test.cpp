// SPDX-License-Identifier: Apache-2.0
// What the transport counted against the closed forms, exactly; and the memory that plans hold.
#include <functional>
#include <optional>

#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace traffic_test {

/// What one rank did in a forward and a backward pass.
struct Usage {
  Traffic forward, backward;
  std::int64_t bytes_copied = 0;
  std::int64_t scratch = 0;    // bytes that the plan and its Saved hold
  std::int64_t allocated = 0;  // bytes that the passes added to that, at any time
};

Traffic difference(const comm::Traffic& after, const comm::Traffic& before) {
  return {after.bytes_sent - before.bytes_sent, after.messages_sent - before.messages_sent,
          after.inter_node_bytes_sent - before.inter_node_bytes_sent};
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
using Check = std::function<void(const NamedSchedule& schedule, const comm::Communicator& comm,
                                 const Usage& used)>;

/// Checks every rank under every schedule, in the group that `group` makes of the world.
void check_usage(
    const std::vector<NamedSchedule>& schedules, const Problem& problem,
    const comm::LaunchOptions& options, const Check& check, bool with_lse = false,
    const std::function<comm::Communicator(const comm::Communicator&)>& group = std::identity()) {
  const OracleInputs inputs = random_inputs(problem, 1);
  comm::test::launch(options, [&](const comm::Communicator& world) {
    const comm::Communicator comm = group(world);
    const std::unique_ptr<Kernels> kernels = make_kernels("null", comm.device());
    for (const NamedSchedule& named : schedules) {
      SCOPED_TRACE(concat(describe(named), ", rank ", comm.rank(), " of ", options.ranks, ", ",
                          describe(problem)));
      const auto schedule = make_schedule(named.name, comm, *kernels, named.options);
      check(named, comm, measure(comm, *schedule, problem, inputs, with_lse));
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

comm::World one_node(int ranks) { return {comm::even_places(ranks, 0)}; }

/// Those that are not in the full grid on three and on eight ranks.
std::vector<NamedSchedule> legal_schedules(int ranks, const Problem& problem) {
  const bool more = ranks == 3 || ranks == 8;
  std::vector<NamedSchedule> legal;
  for (const NamedSchedule& schedule :
       more ? every_schedule(ranks, problem.mask) : all_schedules(ranks)) {
    if (ulysses_degree(schedule, ranks) <= problem.shape.heads) legal.push_back(schedule);
  }
  return legal;
}

void expect_closed_forms(const Problem& problem, int ranks, bool with_lse = false) {
  const Check check = [&](const NamedSchedule& schedule, const comm::Communicator& comm,
                          const Usage& used) {
    const auto& [name, options] = schedule;
    EXPECT_EQ(used.forward,
              forward_traffic(name, options, problem, comm.world(), comm.rank(), with_lse));
    EXPECT_EQ(used.backward, backward_traffic(name, options, problem, comm.world(), comm.rank()));
    EXPECT_EQ(used.allocated, 0);
  };
  check_usage(legal_schedules(ranks, problem), problem, {.ranks = ranks, .deadline = 20}, check,
              with_lse);
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
    EXPECT_EQ(forward_traffic("ring", {}, problem, one_node(ranks), 1),
              (Traffic{(p - 1) * kv, p - 1}));
    EXPECT_EQ(backward_traffic("ring", {}, problem, one_node(ranks), 1),
              (Traffic{(p - 1) * kv + p * kv, 2 * p - 1}));
    EXPECT_EQ(forward_traffic("all_gather_kv", {}, problem, one_node(ranks), 1),
              (Traffic{(p - 1) * kv, p - 1}));
    EXPECT_EQ(backward_traffic("all_gather_kv", {}, problem, one_node(ranks), 1),
              (Traffic{2 * (p - 1) * kv, 2 * (p - 1)}));
    const Traffic all_to_alls{(p - 1) * b * (s / p) * (h + copies) * d * e / p, 2 * (p - 1)};
    EXPECT_EQ(forward_traffic("ulysses", {}, problem, one_node(ranks), 1), all_to_alls);
    EXPECT_EQ(backward_traffic("ulysses", {}, problem, one_node(ranks), 1), all_to_alls);
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
  EXPECT_EQ(forward_traffic("zigzag", {}, problem(32), one_node(64), 5),
            (Traffic{63 * 268435456ll, 63}));
  EXPECT_EQ(forward_traffic("ulysses", {}, problem(64), one_node(64), 5).bytes,
            (1ll << 30) / 64 * 63);
}

// What a causal mask never needs is not sent: on contiguous shards block o stops at the last rank.
TEST(TrafficTest, SkipsHopsThatNoLaterRankNeeds) {
  const Problem causal = make_problem("causal", 64, shape(1, 1));
  const std::int64_t kv = 2 * 16 * 8 * 4;
  for (int rank = 0; rank < 4; ++rank) {
    const int blocks = rank < 3 ? rank + 1 : 0;
    EXPECT_EQ(forward_traffic("ring", {}, causal, one_node(4), rank),
              (Traffic{blocks * kv, blocks}));
  }
  // The last rank is the last to see every block but its own, and sends their gradients home.
  EXPECT_EQ(backward_traffic("ring", {}, causal, one_node(4), 3), (Traffic{3 * kv, 3}));
  EXPECT_EQ(backward_traffic("ring", {}, causal, one_node(4), 0), (Traffic{2 * kv, 2}));

  const Problem window = make_problem("window:5:0", 64, shape(1, 1));
  EXPECT_EQ(forward_traffic("ring", {}, window, one_node(4), 1), (Traffic{kv, 1}));
  EXPECT_EQ(backward_traffic("ring", {}, window, one_node(4), 1), (Traffic{3 * kv, 3}));
}

TEST(TrafficTest, HasNoClosedFormForRanksThatAreNotThere) {
  const Problem problem = make_problem("full", 64, shape(8, 8));
  EXPECT_THROW(forward_traffic("ring", {}, problem, one_node(4), 4), Error);
  EXPECT_THROW(forward_traffic("ring", {}, problem, one_node(4), -1), Error);
}

/// With every all-to-all, and usp with the degree that the nodes imply.
std::vector<NamedSchedule> schedules_across_nodes(const Problem& problem, int ranks,
                                                  int ranks_per_node) {
  std::vector<NamedSchedule> schedules = legal_schedules(ranks, problem);
  if (ranks % ranks_per_node == 0) schedules.push_back({"usp"});
  for (std::size_t i = 0, count = schedules.size(); i < count; ++i) {
    if (!schedule_entry(schedules[i].name).takes_all_to_all) continue;
    for (const auto algorithm :
         {comm::AllToAllAlgorithm::hierarchical, comm::AllToAllAlgorithm::automatic}) {
      schedules.push_back(schedules[i]);
      schedules.back().options.all_to_all = algorithm;
    }
  }
  return schedules;
}

/// None; what makes hierarchical pay in one stage; and in some exchanges of the tests only.
const std::vector<std::optional<comm::MessageCosts>> kCosts{
    {},
    comm::MessageCosts{{0, 10, 0}, {0, 1, 0}, 0},
    comm::MessageCosts{{0, 300, 1}, {0, 9, 2}, 1}};

TEST(TrafficTest, EqualsTheClosedFormsAcrossNodesOfAnySizeAndOrder) {
  Problem problem = make_problem("causal", 29, shape(8, 4));
  problem.sinks = true;
  for (const auto& [ranks, ranks_per_node] :
       std::vector<std::pair<int, int>>{{4, 2}, {5, 4}, {6, 2}, {7, 3}, {8, 2}, {8, 3}}) {
    if (!comm::test::enough_processes(ranks)) continue;
    for (const auto& costs : kCosts) {
      // Ranks of a node are no neighbours in the group.
      const auto group = [&](const comm::Communicator& world) {
        const comm::Communicator all = world.split(0, world.rank() % 2);
        return costs ? all.knowing(*costs) : all;
      };
      const Check check = [&](const NamedSchedule& schedule, const comm::Communicator& comm,
                              const Usage& used) {
        const auto& [name, options] = schedule;
        comm::World world{{}, false, 20, costs};
        for (int rank = 0; rank < comm.size(); ++rank) world.places.push_back(comm.place(rank));
        const Traffic forward = forward_traffic(name, options, problem, world, comm.rank(), true);
        EXPECT_EQ(used.forward, forward);
        EXPECT_EQ(used.backward, backward_traffic(name, options, problem, world, comm.rank()));
      };
      check_usage(schedules_across_nodes(problem, ranks, ranks_per_node), problem,
                  {.ranks = ranks, .ranks_per_node = ranks_per_node, .deadline = 20}, check,
                  /*with_lse=*/true, group);
    }
  }
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
      const Check check = [&](const NamedSchedule&, const comm::Communicator&, const Usage& used) {
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
      check_usage(legal_schedules(ranks, problem), problem,
                  {.ranks = ranks, .hop = comm::Hop::reference, .deadline = 20},
                  [](const NamedSchedule&, const comm::Communicator&, const Usage& used) {
                    EXPECT_EQ(used.allocated, 0);
                  });
    }
  }
}

TEST(PlanMemoryTest, LentHopsOfARingCopyNothing) {
  for (const char* schedule : {"ring", "striped", "zigzag"}) {
    for (const char* mask : {"full", "causal", "window:7:3"}) {
      const Problem problem = make_problem(mask, 61, shape(4, 2));
      for (const int ranks : {2, 3, 5}) {
        const comm::LaunchOptions lend{.ranks = ranks, .hop = comm::Hop::reference, .deadline = 20};
        check_usage({{schedule}}, problem, lend,
                    [](const NamedSchedule&, const comm::Communicator&, const Usage& used) {
                      EXPECT_EQ(used.bytes_copied, 0);
                    });
      }
    }
  }
}

}  // namespace traffic_test
}  // namespace ringspan::attention
