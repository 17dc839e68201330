// SPDX-License-Identifier: Apache-2.0
// What balance is worth: eight A100 against one, causal attention forward. DISTFLASHATTN (arXiv
// 2310.03294, section 4.5) counts 36 blocks, which take a ring 8 steps and the balanced schedule 5:
// 4.5 and 7.2 times as fast; it measured 4.5 and 7.5. Blocks on the diagonal are half the work of
// others: counted so it is 32 / 7.5 and 32 / 4.5, which no kernel exceeds that takes as long for a
// product on one GPU as on eight, and which messages, merging and tails lower. So the two that were
// measured, above even the paper's own count, are not met: here they are a tenth less.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "attention/schedule.hpp"
#include "comm/launch.hpp"

namespace ringspan::attention {
namespace {

/// A DGX A100, as bench/clusters/a100.toml describes it. One cluster per process.
std::shared_ptr<const comm::Cluster> dgx_a100() {
  comm::Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.gpu = {"a100", 108, 312e12, 80'000'000'000, 1.63e12};
  cluster.fabric.messages = {10e-6, 5e-6, 16, 1.6};
  cluster.fabric.gpu_bytes_per_second = 230e9;
  cluster.fabric.gpus_per_switch = 8;
  cluster.channels.bytes_per_second = 14e9;
  cluster.issue_seconds = 2e-6;
  return std::make_shared<const comm::Cluster>(cluster);
}

double seconds(const std::string& schedule, const Problem& problem, int ranks) {
  comm::LaunchOptions options;
  options.ranks = ranks;
  options.cluster = dgx_a100();
  double longest = 0;
  comm::launch("simulated", options, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("modelled:fa2", comm.device());
    const auto made = make_schedule(schedule, comm, *kernels);
    const std::int64_t own = tokens(made->shard(problem.sequence));
    const Shape& s = problem.shape;
    const auto tensor = [&] {
      return Tensor(comm.device(), s.dtype, s.batch, own, s.heads, s.head_dim);
    };
    const Tensor q = tensor(), k = tensor(), v = tensor(), out = tensor();
    const auto plan = made->plan(problem);
    const double start = comm.device().now();  // no rank has had anything to do yet
    plan->forward({q, k, v}, {out.view()}, nullptr);
    comm.device().synchronize(comm.deadline());
    longest = std::max(longest, comm.device().now() - start);
  });
  return longest;
}

double speedup_on_eight(const std::string& schedule, std::int64_t tokens) {
  Problem problem{{1, 32, 32, 128, 128, DType::bf16}, Sequence{tokens}, {}};
  problem.mask.right = 0;
  return seconds("ring", problem, 1) / seconds(schedule, problem, 8);
}

TEST(SimulatedSpeedupTest, OfBalanceIsThePapersAndBothAreNearWhatTheirWorkAllows) {
  const std::int64_t tokens = 256 << 10;
  const double ring = speedup_on_eight("ring", tokens);
  const double balanced = speedup_on_eight("dist_flash", tokens);
  RecordProperty("ring", std::to_string(ring));
  RecordProperty("dist_flash", std::to_string(balanced));
  EXPECT_NEAR(balanced / ring / (7.5 / 4.5), 1, 0.03) << "as measured";
  const double ring_by_work = 32 / 7.5, balanced_by_work = 32 / 4.5;
  EXPECT_LT(ring, ring_by_work);
  EXPECT_GT(ring, 0.93 * ring_by_work);
  EXPECT_LT(balanced, balanced_by_work);
  EXPECT_GT(balanced, 0.93 * balanced_by_work);
}

}  // namespace
}  // namespace ringspan::attention
