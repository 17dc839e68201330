// SPDX-License-Identifier: Apache-2.0
// Zigzag attention on two ranks against one, next to a pure multiply-add loop on two threads
// against one: how much of what the same two cores can give arrives. Cores are noisy and shared:
// the two scalings are taken in turns, a block is judged by the median of their ratios, the best
// block counts. With hops by copy the cores that compute also move the bytes, which is little here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <thread>

#include "attention/schedule.hpp"
#include "bench/fma_peak.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "tests/attention/array.hpp"

namespace ringspan::attention {
namespace scaling_speed_test {

constexpr int kRanks = 2, kPairs = 7, kBlocks = 3;
constexpr double kEnough = 0.93;

/// Seconds from a barrier until the slowest rank has done its work.
double slowest(const comm::Communicator& comm, const std::function<void()>& work) {
  comm::barrier(comm);
  const double start = comm.device().now();
  work();
  return comm::all_reduce(comm, comm.device().now() - start, comm::Reduction::max);
}

/// Zigzag attention of 8,192 tokens over the ranks of `comm`.
class Zigzag {
 public:
  explicit Zigzag(const comm::Communicator& comm)
      : kernels_(make_kernels("cpu", comm.device())),
        plan_(make_schedule("zigzag", comm, *kernels_)->plan(problem())) {
    const std::int64_t mine =
        tokens(shard(LayoutKind::zigzag, problem().sequence, comm.size(), comm.rank()));
    const Shape shape = problem().shape;
    for (Tensor* input : {&q_, &k_, &v_})
      *input = make_tensor(
          comm.device(),
          random_array(1, mine, shape.heads, shape.head_dim, DType::f32, comm.rank()), DType::f32);
    out_ = Tensor(comm.device(), DType::f32, 1, mine, shape.heads, shape.head_dim);
  }

  void forward() { plan_->forward({q_, k_, v_}, {out_}, nullptr); }

 private:
  static Problem problem() {
    return {.shape = {.heads = 2, .kv_heads = 2, .head_dim = 128, .value_dim = 128},
            .sequence = {8192},
            .mask = {.right = 0}};
  }

  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Plan> plan_;
  Tensor q_, k_, v_, out_;
};

/// Scaling of zigzag attention over that of multiply-adds; equal on both ranks.
class Scaling {
 public:
  explicit Scaling(const comm::Communicator& comm)
      : comm_(comm), together_(comm), alone_(comm.split(comm.rank(), 0)) {}

  double ratio() {
    const double zigzag =
        one([&] { alone_.forward(); }) / slowest(comm_, [&] { together_.forward(); });
    constexpr double kGflop = 20;
    const double loop = one([&] { bench::multiply_add_seconds(kGflop); }) /
                        slowest(comm_, [&] { bench::multiply_add_seconds(kGflop / kRanks); });
    return zigzag / loop;
  }

 private:
  /// Seconds that rank 0 takes for the whole work while the other rank has none.
  double one(const std::function<void()>& work) {
    return slowest(comm_, [&] {
      if (comm_.rank() == 0) work();
    });
  }

  comm::Communicator comm_;
  Zigzag together_, alone_;
};

double median_ratio(Scaling& scaling) {
  std::array<double, kPairs> ratios;
  std::generate(ratios.begin(), ratios.end(), [&] { return scaling.ratio(); });
  std::sort(ratios.begin(), ratios.end());
  return ratios[kPairs / 2];
}

class ScalingSpeedTest : public testing::TestWithParam<comm::Hop> {};

INSTANTIATE_TEST_SUITE_P(Hops, ScalingSpeedTest,
                         testing::Values(comm::Hop::copy, comm::Hop::reference),
                         [](const auto& info) {
                           return info.param == comm::Hop::copy ? "copy" : "reference";
                         });

TEST_P(ScalingSpeedTest, TwoRanksGetWhatTwoCoresGive) {
  if (std::thread::hardware_concurrency() < kRanks) {
    GTEST_SKIP() << "this machine has one core; two are needed";
  }
  double best = 0;
  comm::launch(
      "threads", {.ranks = kRanks, .hop = GetParam()}, [&](const comm::Communicator& comm) {
        Scaling scaling(comm);
        scaling.ratio();    // warm up
        double median = 0;  // equal on both ranks
        for (int block = 0; block < kBlocks && median < kEnough; ++block) {
          median = median_ratio(scaling);
          if (comm.rank() != 0) continue;
          std::printf("median of %d pairs: %.3f of the scaling of multiply-adds\n", kPairs, median);
          best = std::max(best, median);
        }
      });
  EXPECT_GE(best, kEnough);
}

}  // namespace scaling_speed_test
}  // namespace ringspan::attention
