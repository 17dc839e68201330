// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 through every schedule on a pairwise cover: partial results and travelling
// gradients are fp32, so each result is that of fp32 rounded once, however many ranks there are.
#include "comm/error.hpp"
#include "tests/attention/pairwise.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace dtype_test {

const std::vector<DType> kDTypes{DType::bf16, DType::f16};
const std::vector<const char*> kMasks{"full", "causal", "window:7:3", "documents+causal"};
const std::vector<std::pair<int, int>> kHeads{{4, 4}, {4, 2}, {4, 1}, {6, 3}, {7, 7}, {8, 2}};
const std::vector<int> kDims{5, 6, 64};  // with an odd one, rows of the all-to-all get padding
const std::vector<int> kLengths{1, 7, 29, 64};
const std::vector<int> kRankCounts{1, 2, 3, 4, 5, 8};

#ifdef RINGSPAN_SANITIZED
constexpr double kKernelDeadline = 300;  // seconds: the emulation of one kernel may take minutes
#else
constexpr double kKernelDeadline = 20;
#endif

/// `gpu`: with kernels of a GPU, where ranks have one.
void check(const std::vector<int>& row, bool gpu) {
  const DType dtype = kDTypes[row[0]];
  const auto& [heads, kv_heads] = kHeads[row[2]];
  Problem problem = make_problem(kMasks[row[1]], kLengths[row[4]],
                                 {.batch = 2,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = kDims[row[3]],
                                  .value_dim = kDims[row[3]],
                                  .dtype = dtype});
  problem.sinks = row[8] == 1;
  const int ranks = kRankCounts[row[5]];
  if (!comm::test::enough_processes(ranks)) return;
  const std::vector<NamedSchedule> schedules = every_schedule(ranks, problem.mask);
  const NamedSchedule& schedule = schedules[row[6] % schedules.size()];
  if (ulysses_degree(schedule, ranks) > heads) return;
  SCOPED_TRACE(concat(describe(schedule), " on ", ranks, " ranks, ", describe(problem)));

  const DType gradients = row[7] == 0 ? dtype : DType::f32;
  const OracleInputs inputs = random_inputs(problem, 5);
  const OracleResults expected = oracle(problem, inputs);
  const bool cuda = gpu && schedule.name != "ring_self_attention";  // its kernels keep no scores
  const double deadline = cuda ? kKernelDeadline : 20;
  const comm::LaunchOptions options{
      .ranks = ranks, .deadline = deadline, .debug = {.poison = true}};
  EXPECT_TRUE(comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels(cuda ? "cuda" : "cpu", comm.device());
    const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
    const bool rounded = ulysses_degree(schedule, ranks) > 1;  // when they were sent
    return matches(run_rank(*made, comm, problem, inputs, gradients), expected, problem, rounded,
                   cuda ? weight_factor(dtype) : Bound{}.factor);
  }));
}

class DTypeCoverTest : public testing::TestWithParam<int> {};

TEST_P(DTypeCoverTest, MatchesTheOracle) {
  const std::vector<int> sizes{2, 4, 6, 3, 4, 6, 21, 2, 2};
  const auto rows = pairwise_cover(sizes, GetParam());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check(rows[i], comm::test::on_gpus() && i % 24 == 0);  // their emulation takes long
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DTypeCoverTest, testing::Values(1, 2));

}  // namespace dtype_test
}  // namespace ringspan::attention
