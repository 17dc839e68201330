// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/forward_seconds.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using Table = std::vector<std::vector<double>>;

TEST(ForwardSecondsTest, MessagesSlowAKernelDownOnlyWhileTheyLast) {
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 0, 2), 10);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 4, 2), 12) << "2 of the 10 in the first 4, 8 after them";
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 20, 2), 20);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 100, 2), 20);
  EXPECT_DOUBLE_EQ(slowed_seconds(10, 100, 1), 10) << "copy engines";
}

TEST(ForwardSecondsTest, EqualRanksTakeTheLongerOfTheTwoInEachStep) {
  // P = 3, two hops: Tc + (P - 1) steps behind messages, the last step alone.
  const Table work(3, {5, 3, 7}), messages(3, {4, 4, 0});
  EXPECT_DOUBLE_EQ(ring_seconds(work, messages, 1), 5 + 4 + 7);
  EXPECT_DOUBLE_EQ(ring_seconds(work, messages, 2), (5 + 4 * 0.5) + (3 + 4 * 0.5) + 7);
}

TEST(ForwardSecondsTest, ASlowRankHoldsUpItsNeighboursAndNobodyElse) {
  // Rank 0 is late in the first step: its message of the second one, and the one to it, start late.
  const Table work{{9, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  const Table messages(4, {0, 2, 2});
  // Step 1 ends at 9 + 2 on ranks 3, 0, 1 and at 3 on rank 2; step 2 starts at 11 on all others.
  EXPECT_DOUBLE_EQ(ring_seconds(work, messages, 1), 9 + 2 + 2);
  const Table two_steps{{9, 1}, {1, 1}, {1, 1}, {1, 30}};
  EXPECT_DOUBLE_EQ(ring_seconds(two_steps, Table(4, {0, 0}), 1), 31) << "no message, no wait";
}

TEST(ForwardSecondsTest, WhereTwoMessagesOverlapAKernelIsSlowedOnce) {
  // Rank 1 works 10 from time 0; its message out can start at 0, the one in from rank 0 at 2.
  const Table work{{2, 1}, {0, 10}, {0, 1}};
  const Table messages{{0, 3}, {0, 4}, {0, 0}};
  // Out 0 to 4 and in 2 to 5: slowed for 5, in which 2.5 are done; 7.5 remain.
  EXPECT_DOUBLE_EQ(ring_seconds(work, messages, 2), 12.5);
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
  EXPECT_THROW(forward_seconds("usp", causal(1024), node(), fa3, 4), Error);
  EXPECT_THROW(forward_seconds("ring", causal(1024), node(), fa3, 9), Error);
  EXPECT_THROW(forward_seconds("ulysses", causal(1024), node(), fa3, 3), Error);
}

}  // namespace
}  // namespace ringspan::attention
