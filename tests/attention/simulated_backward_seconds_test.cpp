// SPDX-License-Identifier: Apache-2.0
// Where messages leave each other room there is nothing to simulate in a backward pass, either.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "attention/closed_forms/backward_seconds.hpp"
#include "attention/kernels.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::attention {
namespace simulated_backward_seconds_test {

/// One node on a switch whose ports have room for three messages, and a host that takes no time
/// worth mentioning. One cluster per process.
std::shared_ptr<const comm::Cluster> node() {
  comm::Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.gpu = {"h800", 132, 989e12, 80'000'000'000, 2e12};
  cluster.fabric.messages = {10e-6, 5e-6, 4, 1.4};
  cluster.fabric.gpu_bytes_per_second = 160e9;
  cluster.fabric.gpus_per_switch = 8;
  cluster.channels.bytes_per_second = 12e9;
  cluster.issue_seconds = 1e-13;
  return std::make_shared<const comm::Cluster>(cluster);
}

double simulated_seconds(const std::string& schedule, const Problem& problem, int ranks) {
  comm::LaunchOptions options;
  options.ranks = ranks;
  options.cluster = node();
  double first = 1e9, last = 0;
  comm::launch("simulated", options, [&](const comm::Communicator& comm) {
    comm::Device& device = comm.device();
    const auto kernels = make_kernels("modelled:fa3", device);
    const auto made = make_schedule(schedule, comm, *kernels);
    const std::int64_t own = tokens(made->shard(problem.sequence));
    const Shape& shape = problem.shape;
    const auto tensor = [&](std::int64_t heads, std::int64_t dim) {
      return Tensor(device, shape.dtype, shape.batch, own, heads, dim);
    };
    const Tensor q = tensor(shape.heads, shape.head_dim), dq = tensor(shape.heads, shape.head_dim);
    const Tensor k = tensor(shape.kv_heads, shape.head_dim);
    const Tensor v = tensor(shape.kv_heads, shape.value_dim);
    const Tensor dk = tensor(shape.kv_heads, shape.head_dim);
    const Tensor dv = tensor(shape.kv_heads, shape.value_dim);
    const Tensor out = tensor(shape.heads, shape.value_dim);
    const Tensor d_out = tensor(shape.heads, shape.value_dim);
    const auto plan = made->plan(problem);
    const auto saved = plan->make_saved();
    plan->forward({q, k, v}, {out.view()}, saved.get());
    comm::barrier(comm);
    first = std::min(first, device.now());
    plan->backward({q, k, v}, {out.view()}, *saved, d_out, {dq.view(), dk.view(), dv.view()});
    device.synchronize(comm.deadline());
    last = std::max(last, device.now());
  });
  return last - first;
}

struct Case {
  std::string schedule;
  int ranks;
  std::int64_t tokens, kv_heads;
  Mask mask;
  std::string name;
};

class SimulatedBackwardSecondsTest : public ::testing::TestWithParam<Case> {};

TEST_P(SimulatedBackwardSecondsTest, EqualTheClosedForm) {
  const auto& [schedule, ranks, tokens, kv_heads, mask, name] = GetParam();
  const Problem problem{{1, 32, kv_heads, 128, 128, DType::bf16}, Sequence{tokens}, mask};
  const double expected = backward_seconds(schedule, problem, *node(), {KernelLibrary::fa3}, ranks);
  const double seconds = simulated_seconds(schedule, problem, ranks);
  EXPECT_NEAR(seconds / expected, 1, 1e-6) << seconds << " against " << expected;
}

const Mask kFull{}, kCausal{.right = 0}, kWindow{.left = 9000, .right = 0};

INSTANTIATE_TEST_SUITE_P(, SimulatedBackwardSecondsTest,
                         ::testing::Values(Case{"ring", 1, 32768, 32, kCausal, "alone"},
                                           Case{"ring", 2, 32768, 32, kFull, "two"},
                                           Case{"ring", 8, 65536, 32, kFull, "full"},
                                           Case{"ring", 8, 16384, 32, kFull, "short"},
                                           Case{"ring", 8, 65536, 8, kCausal, "contiguous"},
                                           Case{"ring", 5, 50000, 8, kCausal, "uneven"},
                                           Case{"ring", 8, 65536, 32, kWindow, "window"},
                                           Case{"striped", 8, 65536, 8, kCausal, "striped"},
                                           Case{"zigzag", 3, 60000, 32, kCausal, "zigzag3"},
                                           Case{"zigzag", 8, 65536, 32, kCausal, "zigzag8"}),
                         [](const auto& test) { return test.param.name; });

TEST(BackwardSecondsTest, WhatHasNoClosedFormIsRefused) {
  const Problem problem{{1, 32, 32, 128, 128, DType::bf16}, Sequence{65536}, kFull};
  const auto seconds = [&](const std::string& schedule, const comm::Cluster& cluster) {
    return backward_seconds(schedule, problem, cluster, {KernelLibrary::fa3}, 8);
  };
  EXPECT_THROW(seconds("ulysses", *node()), Error);
  comm::Cluster narrow = *node();
  narrow.fabric.gpu_bytes_per_second = 90e9;  // two messages of 48 GB/s each
  EXPECT_THROW(seconds("ring", narrow), Error);
  narrow.fabric.gpu_bytes_per_second = 96e9;
  EXPECT_GT(seconds("ring", narrow), 0);
}

}  // namespace simulated_backward_seconds_test
}  // namespace ringspan::attention
