// SPDX-License-Identifier: Apache-2.0
// Ulysses by head groups: the values and the bytes of plain ulysses, in more messages.
#include "attention/closed_forms.hpp"
#include "attention/schedules/head_split.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace ulysses_overlapped_test {

using testing::HasSubstr;

Shape shape(std::int64_t heads, std::int64_t kv_heads, DType dtype = DType::f32) {
  return {.batch = 2,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 6,
          .value_dim = 10,
          .dtype = dtype};
}

/// Whole groups of KV heads, groups that share one, copies on several ranks, uneven heads.
const std::vector<std::pair<int, int>> kHeads{{8, 8}, {8, 2}, {9, 1}, {7, 7}, {12, 3}};

NamedSchedule overlapped(int head_groups) {
  return {"ulysses_overlapped", {.head_groups = head_groups}};
}

TEST(UlyssesOverlappedTest, MatchesTheOracleForEveryNumberOfGroups) {
  for (const auto& [heads, kv_heads] : kHeads) {
    Problem problem = make_problem("causal", 29, shape(heads, kv_heads));
    problem.sinks = true;
    const OracleInputs inputs = random_inputs(problem, 1);
    const OracleResults expected = oracle(problem, inputs);
    for (const int ranks : {1, 2, 3, 4, 5, 7}) {
      if (!comm::test::enough_processes(ranks)) continue;
      for (const int groups : {2, 3, 16}) {
        EXPECT_TRUE(run_and_compare(overlapped(groups), problem, inputs, expected,
                                    {.ranks = ranks, .deadline = 20}, "cpu"))
            << groups << " groups on " << ranks << " ranks, " << describe(problem);
      }
    }
  }
}

TEST(UlyssesOverlappedTest, GoesAroundARing) {
  for (const char* mask : {"full", "documents+causal"}) {
    const Problem problem = make_problem(mask, 31, shape(12, 3, DType::bf16));
    const OracleInputs inputs = random_inputs(problem, 2);
    const OracleResults expected = oracle(problem, inputs);
    for (const int degree : {1, 2, 3, 6}) {
      if (!comm::test::enough_processes(6)) continue;
      const NamedSchedule usp{"usp",
                              {.ulysses_degree = degree,
                               .all_to_all = comm::AllToAllAlgorithm::hierarchical,
                               .head_groups = 3}};
      EXPECT_TRUE(run_and_compare(usp, problem, inputs, expected,
                                  {.ranks = 6, .ranks_per_node = 2, .deadline = 20}, "cpu"))
          << describe(usp) << ", " << describe(problem);
    }
  }
}

// 29 tokens on at most 7 ranks: there is something for every pair of ranks in every group.
TEST(UlyssesOverlappedTest, SendsTheBytesOfUlyssesInGroupsTimesTheMessages) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [heads, kv_heads] : kHeads) {
      const Problem problem = make_problem("causal", 29, shape(heads, kv_heads, dtype));
      for (const int ranks : {2, 3, 4, 7}) {
        const comm::World world{comm::even_places(ranks, 0)};
        std::int64_t fewest = heads;
        for (const HeadShare& share : split_heads(problem.shape, ranks)) {
          fewest = std::min(fewest, share.heads.count);
        }
        for (const int asked : {1, 2, 3, 16}) {
          const std::int64_t groups = std::min<std::int64_t>(asked, fewest);
          const ScheduleOptions options{.head_groups = asked};
          for (int rank = 0; rank < ranks; ++rank) {
            Traffic forward = forward_traffic("ulysses", {}, problem, world, rank);
            Traffic backward = backward_traffic("ulysses", {}, problem, world, rank);
            forward.messages *= groups, backward.messages *= groups;
            EXPECT_EQ(forward_traffic("ulysses_overlapped", options, problem, world, rank),
                      forward);
            EXPECT_EQ(backward_traffic("ulysses_overlapped", options, problem, world, rank),
                      backward);
          }
        }
      }
    }
  }
}

TEST(UlyssesOverlappedTest, CausesTheTrafficOfItsClosedForm) {
  constexpr int kRanks = 6;
  if (!comm::test::enough_processes(kRanks)) GTEST_SKIP() << "needs 6 ranks";
  for (const auto& [heads, kv_heads] : kHeads) {
    const Problem problem = make_problem("window:9:2", 29, shape(heads, kv_heads, DType::bf16));
    const OracleInputs inputs = random_inputs(problem, 3);
    const comm::LaunchOptions launch{.ranks = kRanks, .ranks_per_node = 2, .deadline = 20};
    comm::test::launch(launch, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("null", comm.device());
      for (const NamedSchedule& named :
           {overlapped(3), NamedSchedule{"usp", {.ulysses_degree = 3, .head_groups = 2}},
            NamedSchedule{"usp", {.ulysses_degree = 2, .head_groups = 4}}}) {
        const auto made = make_schedule(named.name, comm, *kernels, named.options);
        const std::int64_t before = comm.traffic().bytes_sent;
        const std::int64_t messages = comm.traffic().messages_sent;
        run_rank(*made, comm, problem, inputs);
        Traffic expected = forward_traffic(named.name, named.options, problem, comm.world(),
                                           comm.rank(), /*with_lse=*/true);
        expected += backward_traffic(named.name, named.options, problem, comm.world(), comm.rank());
        EXPECT_EQ(comm.traffic().bytes_sent - before, expected.bytes) << describe(named);
        EXPECT_EQ(comm.traffic().messages_sent - messages, expected.messages) << describe(named);
      }
    });
  }
}

TEST(UlyssesOverlappedTest, GroupsBelongToThoseThatHaveThem) {
  const auto refusal = [](std::string_view name, int head_groups) -> std::string {
    const Problem problem = make_problem("full", 8, shape(8, 8));
    try {
      (void)forward_traffic(name, {.head_groups = head_groups}, problem, {comm::even_places(2, 0)},
                            0);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal("ring", 2), HasSubstr("ring has no head_groups; ulysses_overlapped and usp"));
  EXPECT_THAT(refusal("ulysses", 2), HasSubstr("head_groups"));
  EXPECT_THAT(refusal("usp", -1), HasSubstr("head_groups is -1; it must be at least 1"));
}

}  // namespace ulysses_overlapped_test
}  // namespace ringspan::attention
