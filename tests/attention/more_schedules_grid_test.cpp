// SPDX-License-Identifier: Apache-2.0
// The schedules that are not in the full grid, on one as full, for those who work on them: minutes.
// The pairwise cover is what every run has.
#include <iostream>
#include <tuple>

#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace more_schedules_grid_test {

const std::vector<std::pair<int, int>> kHeads{{4, 4}, {4, 2}, {4, 1}, {6, 3}, {7, 7}, {8, 2}};

/// All schedules on so many ranks, in one launch.
int check(const Problem& problem, const OracleInputs& inputs, const OracleResults& expected,
          int ranks) {
  std::vector<NamedSchedule> legal = more_schedules(ranks);
  if (problem.mask.left && problem.mask.right) legal.push_back({"halo"});
  std::erase_if(legal, [&](const NamedSchedule& schedule) {
    return ulysses_degree(schedule, ranks) > problem.shape.heads;
  });
  const comm::LaunchOptions options{
      .ranks = ranks, .hop = comm::test::hops().back(), .deadline = 30};
  comm::test::launch(options, [&](const comm::Communicator& comm) {
    const std::unique_ptr<Kernels> kernels = make_kernels("cpu", comm.device());
    for (const NamedSchedule& schedule : legal) {
      SCOPED_TRACE(concat(describe(schedule), ", rank ", comm.rank(), " of ", ranks, ", ",
                          describe(problem)));
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      EXPECT_TRUE(matches(run_rank(*made, comm, problem, inputs), expected, problem));
    }
  });
  return static_cast<int>(legal.size());
}

class MoreSchedulesGridTest : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(MoreSchedulesGridTest, MatchesTheOracle) {
  const auto [mask, head_dim] = GetParam();
  int points = 0;
  for (const int length : {1, 7, 16, 29, 257}) {
    for (const auto& [heads, kv_heads] : kHeads) {
      for (const int batch : {1, 3}) {
        const Problem problem = make_problem(mask, length,
                                             {.batch = batch,
                                              .heads = heads,
                                              .kv_heads = kv_heads,
                                              .head_dim = head_dim,
                                              .value_dim = head_dim});
        const OracleInputs inputs = random_inputs(problem, 3);
        const OracleResults expected = oracle(problem, inputs);
        for (const int ranks : {2, 3, 4, 5, 7, 8, 9, 12}) {
          if (!comm::test::enough_processes(ranks)) continue;
          points += check(problem, inputs, expected, ranks);
        }
      }
    }
  }
  std::cout << mask << ", head_dim " << head_dim << ": " << points << " points\n";
}

INSTANTIATE_TEST_SUITE_P(Grid, MoreSchedulesGridTest,
                         testing::Combine(testing::Values("full", "causal", "window:40",
                                                          "window:7:3", "documents",
                                                          "documents+causal+window:40"),
                                          testing::Values(6, 64)));

}  // namespace more_schedules_grid_test
}  // namespace ringspan::attention
