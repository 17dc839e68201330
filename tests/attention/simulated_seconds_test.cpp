// SPDX-License-Identifier: Apache-2.0
// Without contention there is nothing to simulate: the engine must say what the closed forms say.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "attention/closed_forms/forward_seconds.hpp"
#include "attention/kernels.hpp"
#include "comm/launch.hpp"

namespace ringspan::attention {
namespace simulated_seconds_test {

constexpr ModelledLibrary kLibrary{KernelLibrary::fa3};

/// One NVLink node whose host takes no time worth mentioning. One cluster per process.
std::shared_ptr<const comm::Cluster> node() {
  comm::Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.gpu = {"h800", 132, 989e12, 80'000'000'000, 2e12};
  cluster.fabric.messages = {10e-6, 5e-6, 16, 1.4};
  cluster.fabric.gpu_bytes_per_second = 160e9;
  cluster.fabric.gpus_per_switch = 8;
  cluster.channels.bytes_per_second = 14e9;
  cluster.issue_seconds = 1e-13;
  return std::make_shared<const comm::Cluster>(cluster);
}

double simulated_seconds(const std::string& schedule, const Problem& problem, int ranks,
                         const ScheduleOptions& how) {
  comm::LaunchOptions options;
  options.ranks = ranks;
  options.cluster = node();
  double longest = 0;
  comm::launch("simulated", options, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("modelled:fa3", comm.device());
    const auto made = make_schedule(schedule, comm, *kernels, how);
    const std::int64_t own = tokens(made->shard(problem.sequence));
    const Shape& shape = problem.shape;
    const auto tensor = [&](std::int64_t heads, std::int64_t dim) {
      return Tensor(comm.device(), shape.dtype, shape.batch, own, heads, dim);
    };
    const Tensor q = tensor(shape.heads, shape.head_dim),
                 out = tensor(shape.heads, shape.value_dim);
    const Tensor k = tensor(shape.kv_heads, shape.head_dim);
    const Tensor v = tensor(shape.kv_heads, shape.value_dim);
    const auto plan = made->plan(problem);
    const double start = comm.device().now();  // no rank has had anything to do yet
    plan->forward({q, k, v}, {out.view()}, nullptr);
    comm.device().synchronize(comm.deadline());
    longest = std::max(longest, comm.device().now() - start);
  });
  return longest;
}

struct Case {
  std::string schedule;
  int ranks;
  std::int64_t tokens, kv_heads;
  bool causal;
  int ulysses_degree = 0;
};

class SimulatedSecondsTest : public ::testing::TestWithParam<Case> {};

TEST_P(SimulatedSecondsTest, EqualTheClosedForm) {
  const auto& [schedule, ranks, tokens, kv_heads, causal, degree] = GetParam();
  Problem problem{{1, 32, kv_heads, 128, 128, DType::bf16}, Sequence{tokens}, {}};
  if (causal) problem.mask.right = 0;
  const ScheduleOptions how{.ulysses_degree = degree};
  const double expected = forward_seconds(schedule, problem, *node(), kLibrary, ranks, how);
  const double seconds = simulated_seconds(schedule, problem, ranks, how);
  EXPECT_NEAR(seconds / expected, 1, 1e-6) << seconds << " against " << expected;
}

INSTANTIATE_TEST_SUITE_P(
    , SimulatedSecondsTest,
    ::testing::Values(Case{"ring", 1, 65536, 32, true}, Case{"ring", 2, 65536, 32, false},
                      Case{"ring", 8, 65536, 32, false}, Case{"ring", 8, 65536, 32, true},
                      Case{"ring", 5, 50000, 8, true}, Case{"striped", 8, 65536, 8, true},
                      Case{"zigzag", 2, 65536, 32, true}, Case{"zigzag", 3, 60000, 32, true},
                      Case{"zigzag", 8, 65536, 32, true}, Case{"zigzag", 8, 16384, 32, true},
                      Case{"ulysses", 8, 65536, 32, true}, Case{"ulysses", 4, 65536, 8, false},
                      Case{"usp", 8, 65536, 32, true, 2}, Case{"usp", 8, 65536, 8, true, 4},
                      Case{"usp", 6, 61440, 32, false, 2}, Case{"usp", 4, 65536, 32, true, 1},
                      Case{"usp", 8, 65536, 32, true}),
    [](const auto& test) {
      const Case& c = test.param;
      return c.schedule + "_" + std::to_string(c.ranks) + "ranks_" + std::to_string(c.tokens) +
             "tokens_" + std::to_string(c.kv_heads) + "kv" + (c.causal ? "_causal" : "_full") +
             (c.ulysses_degree > 0 ? "_degree" + std::to_string(c.ulysses_degree) : "");
    });

// Of four equal groups the first one's way in and the last one's way out, a quarter of what moves,
// are waited for. The rest moves behind attention, which it slows to 1 / 1.4: 0.4 of its time.
TEST(UlyssesOverlappedSecondsTest, WaitForTheFirstAndTheLastGroupOnly) {
  const Problem problem{{1, 32, 32, 128, 128, DType::bf16}, Sequence{65536}, {}};
  Problem of_one_rank = problem;
  of_one_rank.shape.heads = of_one_rank.shape.kv_heads = 4;
  const double attention = simulated_seconds("ring", of_one_rank, 1, {});
  const double plain = simulated_seconds("ulysses", problem, 8, {}) - attention;
  const double overlapped = simulated_seconds("ulysses_overlapped", problem, 8, {}) - attention;
  EXPECT_NEAR(overlapped / plain, 0.25 + 0.75 * 0.4, 0.03);
}

}  // namespace simulated_seconds_test
}  // namespace ringspan::attention
