// SPDX-License-Identifier: Apache-2.0
// Every fault in the forward and backward pass of every schedule: no hang, and the right rank
// named.
#include <tuple>

#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"
#include "tests/comm/failure.hpp"

namespace ringspan::attention {
namespace schedule_failure_test {

using comm::test::Fault;

struct Case {
  const char* name;
  comm::Hop hop;
  const char* schedule;
  BackwardForm backward = BackwardForm::kv;
};

constexpr Case kCases[] = {
    {"ring", comm::Hop::copy, "ring"},
    {"lending_ring", comm::Hop::reference, "ring"},
    {"lending_zigzag", comm::Hop::reference, "zigzag"},
    {"ulysses", comm::Hop::copy, "ulysses"},
    {"usp", comm::Hop::reference, "usp"},
    {"all_gather_kv", comm::Hop::copy, "all_gather_kv"},
    {"lending_dist_flash", comm::Hop::reference, "dist_flash"},
    {"ring_self_attention", comm::Hop::copy, "ring_self_attention"},
    {"double_ring", comm::Hop::copy, "double_ring", BackwardForm::q},
    {"bidirectional_ring", comm::Hop::reference, "bidirectional_ring"},
    {"ulysses_overlapped", comm::Hop::copy, "ulysses_overlapped"},
    {"halo", comm::Hop::copy, "halo"},
};

class ScheduleFailureTest : public testing::TestWithParam<std::tuple<Fault, Case>> {};

TEST_P(ScheduleFailureTest, ReachesEveryRankAndNamesTheOneToBlame) {
  const auto& [fault, point] = GetParam();
  const Problem problem =
      make_problem("window:12:12", 13, {.heads = 6, .kv_heads = 3, .head_dim = 4, .value_dim = 4});
  const OracleInputs inputs = random_inputs(problem, 1);
  const std::string_view schedule = point.schedule;
  comm::test::expect_always_blamed(fault, point.hop, [&](const comm::Communicator& comm) {
    ScheduleOptions options{.backward = point.backward};
    if (schedule == "usp") options.ulysses_degree = comm.size() % 2 == 0 ? 2 : 1;
    if (schedule == "double_ring") options.inner_ring = comm.size() % 2 == 0 ? 2 : 1;
    const auto kernels = make_kernels("cpu", comm.device());
    run_rank(*make_schedule(schedule, comm, *kernels, options), comm, problem, inputs);
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, ScheduleFailureTest,
                         testing::Combine(testing::ValuesIn(comm::test::kFaults),
                                          testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return concat(name(std::get<0>(info.param)), "_in_",
                                         std::get<1>(info.param).name);
                         });

}  // namespace schedule_failure_test
}  // namespace ringspan::attention
