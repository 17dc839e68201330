// SPDX-License-Identifier: Apache-2.0
#include "bench/training/training_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/collective_seconds.hpp"
#include "bench/training/layer_pass.hpp"
#include "bench/training/matrix_product.hpp"
#include "bench/training/step_flops.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace training_step_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// Round numbers: 4 nodes of 8 GPUs at 100 GB/s, an adapter of 10 GB/s for each.
comm::Cluster cluster() {
  comm::Cluster cluster;
  cluster.name = "round";
  cluster.nodes = 4;
  cluster.gpus_per_node = 8;
  cluster.gpu = {"a100", 108, 312e12, 80'000'000'000, 1.63e12};
  cluster.fabric.gpu_bytes_per_second = 100e9;
  cluster.fabric.gpus_per_switch = 8;
  cluster.fabric.messages = {10e-6, 5e-6, 0, 1.5};
  cluster.network.adapters_per_node = 8;
  cluster.network.adapter_bytes_per_second = 10e9;
  cluster.network.messages = {20e-6, 10e-6, 0, 1.2};
  cluster.issue_seconds = 5e-6;
  return cluster;
}

comm::Gpu gpu_of(const ProductAnchor& anchor) {
  return {std::string(anchor.gpu), anchor.multiprocessors, anchor.peak_flops_per_second, 1,
          anchor.memory_bytes_per_second};
}

TEST(MatrixProductTest, AnchorsRunAsPublished) {
  for (const ProductAnchor& anchor : product_anchors()) {
    const double seconds = product_seconds(gpu_of(anchor), anchor.shape);
    EXPECT_NEAR(anchor.shape.flops() / seconds / anchor.flops_per_second, 1, 1e-12) << anchor.gpu;
  }
}

TEST(MatrixProductTest, NothingRunsAboveThePeak) {
  for (const ProductAnchor& anchor : product_anchors()) {
    for (const std::int64_t size : {128, 1000, 4096, 16384, 65536}) {
      const Product product{size, size, size};
      EXPECT_GT(product_seconds(gpu_of(anchor), product),
                product.flops() / anchor.peak_flops_per_second);
    }
  }
}

TEST(MatrixProductTest, ABlockMoreThanMultiprocessorsCostsAWave) {
  comm::Gpu gpu = cluster().gpu;
  gpu.memory_bytes_per_second = 1e18;
  const Product whole{108 * 128, 128, 4096}, more{109 * 128, 128, 4096};
  // 54 blocks of 256 x 128 fit in one wave as well as 108 of 128 x 128, which are half as large.
  const double one_wave = product_seconds(gpu, whole);
  EXPECT_NEAR(product_seconds(gpu, more) / one_wave, 2, 1e-6);
}

TEST(MatrixProductTest, SlowMemorySaysHowLongItTakes) {
  comm::Gpu gpu = cluster().gpu;
  gpu.memory_bytes_per_second = 1e11;
  const double rows = 128, size = 8192;
  const double bytes = 2 * (size * size + rows * size + rows * size);  // both factors, the product
  EXPECT_NEAR(product_seconds(gpu, {128, 8192, 8192}) / (bytes / 1e11), 1, 1e-9);
}

TEST(CollectiveTest, RingsTakeTheirClosedFormOverTheSlowestLink) {
  const comm::Cluster round = cluster();
  const double start = 8.4e-6, near = 10e-6 - start, far = 20e-6 - start;
  // 8 GB over 8 ranks of a node: 7 steps of 1 GB at 100 GB/s.
  EXPECT_NEAR(gather_cost(round, {8, 1}, 8e9).seconds, 10e-6 + 6 * near + 7e9 / 100e9, 1e-12);
  // Over 16 ranks of two nodes: the ring has all 8 adapters of a node to itself.
  EXPECT_NEAR(gather_cost(round, {16, 1}, 16e9).seconds, 20e-6 + 14 * far + 15e9 / 80e9, 1e-12);
  // One rank of each node: 8 such rings share the adapters.
  EXPECT_NEAR(gather_cost(round, {4, 8}, 4e9).seconds, 20e-6 + 2 * far + 3e9 / 10e9, 1e-12);
  EXPECT_EQ(gather_cost(round, {1, 1}, 1e9).seconds, 0);
}

TEST(CollectiveTest, WhatLeavesANodeIsSharedByItsRanks) {
  const CollectiveCost cost = gather_cost(cluster(), {16, 1}, 16e9);
  EXPECT_DOUBLE_EQ(cost.bytes_between_nodes, 15e9 / 8);
  EXPECT_DOUBLE_EQ(cost.bytes_in_node + cost.bytes_between_nodes, 15e9);
  EXPECT_DOUBLE_EQ(gather_cost(cluster(), {4, 8}, 4e9).bytes_between_nodes, 3e9);
  EXPECT_EQ(gather_cost(cluster(), {8, 1}, 8e9).bytes_between_nodes, 0);
}

TEST(CollectiveTest, RingsOverPcieShareSwitchesAndSockets) {
  comm::Cluster pcie = cluster();
  pcie.nodes = 1;
  pcie.fabric.messages = {};
  pcie.fabric.gpus_per_switch = 2;
  pcie.fabric.switch_bytes_per_second = 90e9;
  pcie.fabric.numa_domains = 2;
  pcie.fabric.socket_bytes_per_second = 40e9;
  EXPECT_NEAR(gather_cost(pcie, {2, 1}, 2e9).seconds, 1e9 / 100e9, 1e-12) << "in a switch";
  EXPECT_NEAR(gather_cost(pcie, {4, 1}, 4e9).seconds, 3e9 / 90e9, 1e-12) << "in a domain";
  EXPECT_NEAR(gather_cost(pcie, {8, 1}, 8e9).seconds, 7e9 / 40e9, 1e-12) << "over sockets";
  EXPECT_NEAR(gather_cost(pcie, {2, 4}, 2e9).seconds, 1e9 / 10e9, 1e-12) << "four at once";
}

TEST(CollectiveTest, OverlapIsSlowedDownAndEndsWithTheLonger) {
  EXPECT_DOUBLE_EQ(overlapped_seconds(3, 0, 1.5), 3);
  EXPECT_DOUBLE_EQ(overlapped_seconds(3, 1.5, 1.5), 3.5);
  EXPECT_DOUBLE_EQ(overlapped_seconds(3, 4.5, 1.5), 4.5);
  EXPECT_DOUBLE_EQ(overlapped_seconds(3, 9, 1.5), 9);
  EXPECT_DOUBLE_EQ(overlapped_seconds(3, 2, 1), 3);
}

TrainingConfig llama_config() {
  TrainingConfig config;
  config.sequence_length = 8192;
  config.global_batch = 8;
  return config;
}

constexpr AttentionCost kAttention = {{0.003, 0.001, 1000, 400}, {0.008, 0.002, 3000, 1000}};

TEST(TrainingStepTest, PartsOfAStepWithoutPeersAreComputed) {
  const TrainingStep step = training_step(model("llama3-8b"), cluster(), llama_config(), {});
  const StepSeconds& seconds = step.seconds;
  EXPECT_EQ(seconds.messages(), 0);
  EXPECT_EQ(seconds.pipeline_bubble, 0);
  EXPECT_EQ(step.bytes.in_node + step.bytes.between_nodes, 0);
  EXPECT_GT(seconds.products, 3 * seconds.elementwise);
  const double flops = 6 * (8.03e9 - 128256.0 * 4096) * 8 * 8192;
  EXPECT_NEAR(seconds.products, flops / 260e12, 0.05 * seconds.products);
}

TEST(TrainingStepTest, AttentionCountsForEveryLayerMicroBatchAndPass) {
  const Model& llama = model("llama3-8b");
  TrainingConfig config = llama_config();
  config.ring = 2;
  const double layers = 32 * 8;
  TrainingStep step = training_step(llama, cluster(), config, kAttention);
  EXPECT_NEAR(step.seconds.attention, layers * 0.008, 1e-12);
  EXPECT_NEAR(step.seconds.attention_messages, layers * 0.003, 1e-12);
  config.recompute = Recompute::full;
  const double without = step.bytes.between_nodes;
  step = training_step(llama, cluster(), config, kAttention);
  EXPECT_NEAR(step.seconds.attention_messages, layers * 0.004, 1e-12);
  EXPECT_NEAR(step.bytes.between_nodes - without, layers * 400, 1e-3);
}

TEST(TrainingStepTest, FullRecomputeCostsAThirdOfTheProductsOfLayers) {
  const Model& llama = model("llama3-70b");
  TrainingConfig config = llama_config();
  config.tensor = 8;
  config.recompute = Recompute::full;
  const LayerPass forward = layer_forward(llama, cluster(), config);
  const TrainingStep step = training_step(llama, cluster(), config, {});
  EXPECT_NEAR(step.seconds.recompute, 80 * 8 * forward.computing(), 1e-9);
}

TEST(TrainingStepTest, TheBubbleIsTheOtherStagesOnceHoweverManyMicroBatches) {
  const Model& llama = model("llama2-7b");
  TrainingConfig config = llama_config();
  config.pipeline = 4;
  const double layer = layer_forward(llama, cluster(), config).computing() +
                       layer_backward(llama, cluster(), config).computing();
  const auto bubble = [&] {
    return training_step(llama, cluster(), config, {}).seconds.pipeline_bubble;
  };
  // The last stage, which has the logits, is the slowest: three of 8 layers are idle before it.
  EXPECT_NEAR(bubble(), 3 * 8 * layer, 1e-9);
  config.global_batch = 16;
  EXPECT_NEAR(bubble(), 3 * 8 * layer, 1e-9);
  config.pipeline_interleave = 2;
  EXPECT_NEAR(bubble(), 3 * 8 * layer / 2, 1e-9);
}

TEST(TrainingStepTest, GradientsHideBehindTheBackwardPassIfTheyMay) {
  const Model& llama = model("llama2-7b");
  TrainingConfig config = llama_config();
  config.data = 8;
  config.overlap_data_parallel = false;
  const double held = 4 * static_cast<double>(parameters(llama) - llama.hidden);
  const double all_reduce = 2 * gather_cost(cluster(), {8, 1}, held).seconds;
  EXPECT_NEAR(training_step(llama, cluster(), config, {}).seconds.data_messages, all_reduce, 1e-9);
  config.overlap_data_parallel = true;
  // Messages slow kernels down to 1 / 1.5 while they move.
  EXPECT_NEAR(training_step(llama, cluster(), config, {}).seconds.data_messages, all_reduce / 3,
              1e-9);
}

TEST(TrainingStepTest, HigherZeroStagesMoveWhatTheyShard) {
  const Model& llama = model("llama2-7b");
  TrainingConfig config = llama_config();
  config.data = 4;  // of which each has two micro-batches
  const double element = 0.75 * static_cast<double>(parameters(llama) - llama.hidden);
  const auto per_element = [&](int stage) {
    config.zero_stage = stage;
    return training_step(llama, cluster(), config, {}).bytes.in_node / element;
  };
  EXPECT_NEAR(per_element(0), 2 * 4, 1e-9);
  EXPECT_NEAR(per_element(1), 4 + 2, 1e-9);
  EXPECT_NEAR(per_element(2), 2 * 4 + 2, 1e-9);
  EXPECT_NEAR(per_element(3), 2 * (4 + 2 + 2), 1e-9);
}

TEST(TrainingStepTest, SplitResidualsMoveNoMoreThanAllReduces) {
  const Model& llama = model("llama2-7b");
  TrainingConfig config = llama_config();
  config.tensor = 8;
  const LayerPass split = layer_forward(llama, cluster(), config);
  const double backward = layer_backward(llama, cluster(), config).messages.bytes_in_node;
  config.tensor_sequence_parallel = false;
  const LayerPass whole = layer_forward(llama, cluster(), config);
  EXPECT_EQ(split.messages.bytes_in_node, whole.messages.bytes_in_node);
  EXPECT_LT(split.elementwise, whole.elementwise);
  // Backward inputs are gathered a second time: 6 gathers instead of 2 all-reduces.
  EXPECT_DOUBLE_EQ(backward, 1.5 * layer_backward(llama, cluster(), config).messages.bytes_in_node);
}

TEST(TrainingConfigTest, BrokenRulesNameWhatWouldBeRight) {
  const Model& llama = model("llama3-8b");
  TrainingConfig config = llama_config();
  config.data = 3;
  EXPECT_THAT(broken_rules(llama, cluster(), config),
              ElementsAre("global batch 8: it must be a multiple of 3 replicas times 1 sequences, "
                          "such as 9"));
  config = llama_config();
  config.tensor = 64;
  EXPECT_THAT(broken_rules(llama, cluster(), config),
              ElementsAre(HasSubstr("64 GPUs; cluster 'round' has 32"), HasSubstr("32 heads")));
  config = llama_config();
  config.pipeline = 32;
  config.pipeline_interleave = 2;
  EXPECT_THAT(broken_rules(llama, cluster(), config),
              ElementsAre(HasSubstr("at most 16 stages"), HasSubstr("multiple of the 32 stages")));
  config = llama_config();
  config.zero_stage = 4;
  config.sequence_length = 0;
  EXPECT_THAT(broken_rules(llama, cluster(), config),
              ElementsAre(HasSubstr("the sequence is 0"), HasSubstr("ZeRO stage is 4")));
  EXPECT_THAT(broken_rules(model("qwen3-235b"), cluster(), llama_config()),
              ElementsAre(HasSubstr("only dense models")));
  config = llama_config();
  config.attention = AttentionKind::materialised;
  config.ring = 2;
  EXPECT_THAT(broken_rules(llama, cluster(), config), ElementsAre(HasSubstr("whole sequences")));
  EXPECT_TRUE(broken_rules(llama, cluster(), llama_config()).empty());
}

TEST(TrainingConfigTest, AStepOfABrokenConfigIsRefused) {
  TrainingConfig config = llama_config();
  config.data = 3;
  EXPECT_THROW(training_step(model("llama3-8b"), cluster(), config, {}), Error);
}

TEST(AttentionPointTest, SequenceParallelRanksAreAsFarApartAsTensorGroupsPutThem) {
  TrainingConfig config = llama_config();
  config.tensor = 4;
  config.ulysses = 2;
  config.ring = 4;
  config.micro_batch = 2;
  const Point point =
      attention_point(model("llama3-8b"), cluster(), config, "usp", "modelled:fa2", "backward");
  EXPECT_EQ(point.ranks, 8);
  EXPECT_EQ(point.ranks_per_node, 2);
  EXPECT_EQ(point.ulysses_degree, 2);
  EXPECT_EQ(point.heads, 8);
  EXPECT_EQ(point.kv_heads, 2);
  EXPECT_EQ(point.batch, 2);
  EXPECT_EQ(point.cluster, "round");
}

TEST(MaterialisedAttentionTest, BackwardIsTwiceTheProductsAndReadsScoresMoreOften) {
  TrainingConfig config = llama_config();
  config.sequence_length = 2048;
  config.tensor = 8;
  const Model& gpt = model("megatron-22b");
  const comm::Gpu gpu = cluster().gpu;
  const AttentionCost plain = materialised_attention(gpt, gpu, config);
  config.dropout = true;
  const AttentionCost dropped = materialised_attention(gpt, gpu, config);
  const double scores = 8.0 * 2048 * 2048 / gpu.memory_bytes_per_second;
  EXPECT_NEAR(dropped.forward.seconds - plain.forward.seconds, 5 * scores, 1e-12);
  EXPECT_NEAR(dropped.backward.seconds - plain.backward.seconds, 5 * scores, 1e-12);
  EXPECT_GT(plain.backward.seconds, 1.5 * plain.forward.seconds);
  EXPECT_LT(plain.backward.seconds, 2.5 * plain.forward.seconds);
}

}  // namespace training_step_test
}  // namespace ringspan::bench
