// SPDX-License-Identifier: Apache-2.0
// Every schedule against the oracle on a pairwise cover of small cases, with all debugging aids on.
// The full grid is in schedule_grid_test.cpp.
#include "attention/schedule.hpp"
#include "comm/error.hpp"
#include "tests/attention/pairwise.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace schedule_cover_test {

const std::vector<int> kRankCounts{1, 2, 3, 4, 5, 7, 8};
const std::vector<const char*> kMasks{"full",      "causal",           "window:40",
                                      "window:2",  "window:7:3",       "window:0",
                                      "documents", "documents+causal", "documents+window:3:1"};
const std::vector<std::pair<int, int>> kHeads{{4, 4}, {4, 2}, {4, 1}, {6, 3}, {7, 7}, {8, 2}};
const std::vector<std::pair<int, int>> kDims{{6, 6}, {64, 64}, {5, 7}, {72, 16}};
const std::vector<int> kLengths{1, 3, 7, 16, 29};

struct Case {
  Problem problem;
  NamedSchedule schedule;
  comm::LaunchOptions launch;
  std::string_view kernels;
};

/// One of the degrees that divide the ranks, a proper one if there is any.
int some_degree(int ranks, int choice) {
  std::vector<int> degrees;
  for (int degree = 2; degree < ranks; ++degree) {
    if (ranks % degree == 0) degrees.push_back(degree);
  }
  if (degrees.empty()) degrees = {1, ranks};
  return degrees[choice % degrees.size()];
}

/// Every schedule in the forms that differ, with the degree where one has degrees.
std::vector<NamedSchedule> schedules(int ranks, int degree) {
  return {
      {"ring"},
      {"striped"},
      {"zigzag"},
      {"ulysses"},
      {"ulysses",
       {.layout = LayoutKind::striped, .all_to_all = comm::AllToAllAlgorithm::hierarchical}},
      {"all_gather_kv"},
      {"all_gather_kv", {.layout = LayoutKind::contiguous}},
      {"usp", {.ulysses_degree = degree}},
      {"usp",
       {.layout = LayoutKind::striped,
        .ulysses_degree = degree,
        .placement = Placement::ring_inner}},
      {"usp",
       {.layout = LayoutKind::contiguous,
        .ulysses_degree = degree,
        .all_to_all = comm::AllToAllAlgorithm::hierarchical}},
      {"zigzag", {.backward = BackwardForm::q}},
      {"dist_flash"},
      {"ring_self_attention"},
      {"ring_self_attention", {.layout = LayoutKind::striped}},
      {"bidirectional_ring"},
      {"bidirectional_ring", {.layout = LayoutKind::contiguous}},
      {"double_ring", {.inner_ring = degree, .backward = BackwardForm::automatic}},
      {"double_ring", {.layout = LayoutKind::contiguous, .inner_ring = degree}},
      {"double_ring",
       {.layout = LayoutKind::striped, .inner_ring = degree, .backward = BackwardForm::q}},
      {"usp", {.ulysses_degree = ranks == 8 ? 2 : 1, .inner_ring = ranks == 8 ? 2 : degree}},
      {"usp",
       {.ulysses_degree = ranks == 8 ? 2 : 1,
        .placement = Placement::ring_inner,
        .inner_ring = ranks == 8 ? 2 : degree}},
      {"usp", {.ulysses_degree = degree, .head_groups = 2, .resends = true}},
  };
}

/// The axes, and what their values mean together.
Case make_case(const std::vector<int>& row, int number) {
  const int ranks = kRankCounts[row[1]];
  const auto& [heads, kv_heads] = kHeads[row[3]];
  const auto& [head_dim, value_dim] = kDims[row[4]];
  const DType dtype = row[7] == 0 ? DType::f64 : DType::f32;
  Case result;
  result.problem = make_problem(kMasks[row[2]], kLengths[row[5]],
                                {.batch = row[6] == 0 ? 1 : 3,
                                 .heads = heads,
                                 .kv_heads = kv_heads,
                                 .head_dim = head_dim,
                                 .value_dim = value_dim,
                                 .dtype = dtype});
  if (row[8] == 1) result.problem.softcap = 2.5;
  if (row[8] == 2) result.problem.softmax_scale = 0.7;
  result.problem.sinks = row[9] == 1;

  result.schedule = schedules(ranks, some_degree(ranks, number))[row[0]];
  result.launch = {.ranks = ranks,
                   .ranks_per_node = row[11] == 0 ? 0 : 2,
                   .hop = row[10] == 0 ? comm::Hop::copy : comm::test::hops().back(),
                   .deadline = 20,
                   .debug = {.ledger = true,
                             .poison = true,
                             .max_delay = 50e-6,
                             .seed = static_cast<std::uint64_t>(number)}};
  // None on the host but reference takes fp64; no kernels of GPUs keep scores.
  result.kernels = dtype == DType::f64 ? "reference" : "cpu";
  if (comm::test::on_gpus() && result.schedule.name != "ring_self_attention") {
    result.kernels = "cuda";
  }
  return result;
}

void check(const Case& point) {
  if (!comm::test::enough_processes(point.launch.ranks)) return;
  SCOPED_TRACE(concat(describe(point.schedule), " on ", point.launch.ranks, " ranks, ",
                      describe(point.problem), ", ", point.kernels));
  const OracleInputs inputs = random_inputs(point.problem, 7);
  const auto compare = [&] {
    return run_and_compare(point.schedule, point.problem, inputs, oracle(point.problem, inputs),
                           point.launch, point.kernels);
  };
  if (ulysses_degree(point.schedule, point.launch.ranks) > point.problem.shape.heads) {
    EXPECT_THROW(static_cast<void>(compare()), Error);
  } else {
    EXPECT_TRUE(compare());
  }
}

class ScheduleCoverTest : public testing::TestWithParam<int> {};

TEST_P(ScheduleCoverTest, MatchesTheOracle) {
  const std::vector<int> sizes{22, 7, 9, 6, 4, 5, 2, 3, 3, 2, 2, 2};
  const auto rows = pairwise_cover(sizes, GetParam());
  for (std::size_t i = 0; i < rows.size(); ++i) check(make_case(rows[i], static_cast<int>(i)));
  RecordProperty("points", static_cast<int>(rows.size()));
}

#ifdef RINGSPAN_SANITIZED  // slow, and looks for what any run can show
INSTANTIATE_TEST_SUITE_P(Seeds, ScheduleCoverTest, testing::Values(1));
#else
INSTANTIATE_TEST_SUITE_P(Seeds, ScheduleCoverTest, testing::Values(1, 2, 3));
#endif

}  // namespace schedule_cover_test
}  // namespace ringspan::attention
