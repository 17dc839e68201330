// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/forward_seconds.hpp"

#include <gtest/gtest.h>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace forward_seconds_test {

TEST(ForwardSecondsTest, MessagesSlowAKernelDownOnlyWhileTheyLast) {
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 0, 2), 10);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 4, 2), 12) << "2 of the 10 in the first 4, 8 after them";
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 20, 2), 20);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 100, 2), 20);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 100, 1), 10) << "copy engines";
}

comm::Cluster node() {
  comm::Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.gpu = {"h800", 132, 989e12, 80'000'000'000, 2e12};
  cluster.fabric.messages = {10e-6, 5e-6, 0, 1.4};
  cluster.fabric.gpu_bytes_per_second = 160e9;
  cluster.fabric.gpus_per_switch = 8;
  cluster.issue_seconds = 1e-9;
  return cluster;
}

Problem causal(std::int64_t tokens) {
  return {{1, 32, 32, 128, 128, DType::bf16}, Sequence{tokens}, Mask{.right = 0}};
}

// The published form of basic ring attention: the last rank's P blocks, all but one of them full,
// in P (P + 1) / 2 of which P^2 / 2 ideal ones were work: efficiency P / (2P - 1), 53 % at P = 8.
TEST(ForwardSecondsTest, ACausalRingWastesHalfOfItsRanks) {
  const ModelledLibrary fa3{KernelLibrary::fa3, true};
  const double one = forward_seconds("ring", causal(1 << 20), node(), fa3, 1);
  const double ring = forward_seconds("ring", causal(1 << 20), node(), fa3, 8);
  const double zigzag = forward_seconds("zigzag", causal(1 << 20), node(), fa3, 8);
  EXPECT_NEAR(one / (8 * ring), 8.0 / 15, 0.02);
  EXPECT_GT(one / (8 * zigzag), 0.95);
}

TEST(ForwardSecondsTest, WhatHasNoClosedFormIsRefused) {
  const ModelledLibrary fa3{KernelLibrary::fa3};
  EXPECT_THROW(forward_seconds("all_gather_kv", causal(1024), node(), fa3, 4), Error);
  EXPECT_THROW(forward_seconds("ring", causal(1024), node(), fa3, 9), Error);
  EXPECT_THROW(forward_seconds("ulysses", causal(1024), node(), fa3, 3), Error);
  EXPECT_THROW(forward_seconds("usp", causal(1000), node(), fa3, 8, {.ulysses_degree = 4}), Error);
  EXPECT_THROW(forward_seconds("usp", causal(1024), node(), fa3, 8, {.ulysses_degree = 3}), Error);
}

}  // namespace forward_seconds_test
}  // namespace ringspan::attention
