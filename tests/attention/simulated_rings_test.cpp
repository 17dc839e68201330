// SPDX-License-Identifier: Apache-2.0
// Where nothing but messages takes time, each form of a ring takes what its longest chain of
// messages does.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "attention/schedule.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::attention {
namespace {

constexpr int kNodes = 4, kGpus = 4, kRanks = kNodes * kGpus;
constexpr double kInside = 160e9, kBetween = 5e9;  // bytes per second

comm::Cluster cluster() {
  comm::Cluster cluster = comm::test::plain_cluster(kNodes, kGpus);
  cluster.network.adapter_bytes_per_second = kBetween;
  cluster.gpu.memory_bytes_per_second = 1e18;
  return cluster;
}

const Problem kProblem{
    .shape = {.heads = 4, .kv_heads = 4, .head_dim = 128, .value_dim = 128, .dtype = DType::bf16},
    .sequence = {kRanks * 16384},
    .mask = {}};
constexpr double kBlock = 16384.0 * 4 * 256 * 2;  // bytes of one rank's K and V

/// Of the slowest rank, without attention itself.
double forward_seconds(const char* schedule, const ScheduleOptions& options) {
  double longest = 0;
  comm::test::simulate(cluster(), kRanks, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("null", comm.device());
    const auto made = make_schedule(schedule, comm, *kernels, options);
    const Tensor qkv(comm.device(), DType::bf16, 1, 16384, 4, 128);
    const Tensor out(comm.device(), DType::bf16, 1, 16384, 4, 128);
    const auto plan = made->plan(kProblem);
    const double start = comm.device().now();
    plan->forward({qkv, qkv, qkv}, {out.view()}, nullptr);
    comm.device().synchronize(comm.deadline());
    longest = std::max(longest, comm.device().now() - start);
  });
  return longest;
}

// Every step of one ring waits for the hop between two nodes.
TEST(SimulatedRingsTest, OneRingPaysBetweenNodesInEveryStep) {
  EXPECT_NEAR(forward_seconds("zigzag", {}) / ((kRanks - 1) * kBlock / kBetween), 1, 0.01);
}

// The steps of an inner turn hide behind its one hop between nodes, but for the last turn's.
TEST(SimulatedRingsTest, ADoubleRingPaysBetweenNodesOncePerTurn) {
  const double expected = (kNodes - 1) * kBlock / kBetween + (kGpus - 1) * kBlock / kInside;
  EXPECT_NEAR(forward_seconds("double_ring", {}) / expected, 1, 0.01);
}

TEST(SimulatedRingsTest, ABidirectionalRingTakesHalfTheSteps) {
  EXPECT_NEAR(forward_seconds("bidirectional_ring", {}) / (kRanks / 2 * kBlock / kBetween), 1,
              0.01);
}

}  // namespace
}  // namespace ringspan::attention
