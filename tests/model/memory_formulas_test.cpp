// SPDX-License-Identifier: Apache-2.0
// What others have published of activation memory, as it stands in their papers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/memory/checkpoints.hpp"
#include "model/memory/layer_activations.hpp"
#include "model/memory/most_within.hpp"
#include "model/memory/peak_activation.hpp"
#include "model/memory/ring_self_attention.hpp"

namespace ringspan::model {
namespace {

constexpr double kGiB = 1 << 30;

/// A GPT of Megatron-SP's table 3 in the paper's symbols, on t = 8 GPUs.
struct Gpt {
  const char* name;
  double b, a, h;
  double s = 2048, t = 8;

  LayerShare share(std::int64_t tensor, bool sequence_parallel, KeptScores scores) const {
    const auto tokens = static_cast<std::int64_t>(s * b);
    const auto heads = static_cast<std::int64_t>(a) / tensor;
    return {.tokens = tokens,
            .residual_tokens = sequence_parallel ? tokens / tensor : tokens,
            .keys = static_cast<std::int64_t>(s),
            .hidden = static_cast<std::int64_t>(h),
            .heads = heads,
            .kv_heads = heads,
            .head_dim = static_cast<std::int64_t>(h / a),
            .mlp_hidden = static_cast<std::int64_t>(4 * h) / tensor,
            .dropout = true,
            .scores = scores};
  }
  double bytes(std::int64_t tensor, bool sequence_parallel, KeptScores scores) const {
    return layer_activation_bytes(share(tensor, sequence_parallel, scores)).total();
  }
};

constexpr Gpt kGpts[] = {
    {"22B", 4, 64, 6144}, {"175B", 1, 96, 12288}, {"530B", 1, 128, 20480}, {"1T", 1, 160, 25600}};

TEST(LayerActivationsTest, AreTheEquationsOfMegatronSp) {
  for (const Gpt& gpt : kGpts) {
    const auto& [model, b, a, h, s, t] = gpt;
    SCOPED_TRACE(model);
    constexpr auto all = KeptScores::all, none = KeptScores::none;
    EXPECT_DOUBLE_EQ(gpt.bytes(1, false, all), s * b * h * (34 + 5 * a * s / h)) << "eq. 1";
    EXPECT_DOUBLE_EQ(gpt.bytes(8, false, all), s * b * h * (10 + 24 / t + 5 * a * s / (h * t)))
        << "eq. 2";
    EXPECT_DOUBLE_EQ(gpt.bytes(8, true, all), s * b * h / t * (34 + 5 * a * s / h)) << "eq. 4";
    EXPECT_DOUBLE_EQ(gpt.bytes(8, false, none), s * b * h * (10 + 24 / t)) << "table 2";
    EXPECT_DOUBLE_EQ(gpt.bytes(8, true, none), 34 * s * b * h / t) << "table 2";
    EXPECT_DOUBLE_EQ(layer_input_bytes(gpt.share(8, false, all)), 2 * s * b * h) << "table 2";
  }
}

TEST(LayerActivationsTest, PartsAreThoseOfMegatronSp) {
  const auto& [model, b, a, h, s, t] = kGpts[1];
  const LayerBytes bytes = layer_activation_bytes(kGpts[1].share(1, false, KeptScores::all));
  EXPECT_DOUBLE_EQ(bytes.attention, 11 * s * b * h);
  EXPECT_DOUBLE_EQ(bytes.scores, 5 * a * s * s * b);
  EXPECT_DOUBLE_EQ(bytes.mlp, 19 * s * b * h);
  EXPECT_DOUBLE_EQ(bytes.norms, 4 * s * b * h);
}

TEST(LayerActivationsTest, AFlashKernelKeepsItsLse) {
  const Gpt& gpt = kGpts[1];
  EXPECT_DOUBLE_EQ(gpt.bytes(8, true, KeptScores::lse) - gpt.bytes(8, true, KeptScores::none),
                   4.0 * 2048 * 96 / 8);
}

TEST(LayerActivationsTest, TheFirstStageHoldsAllLayersOfOneMicroBatch) {
  const double p = 8, v = 3;
  EXPECT_DOUBLE_EQ(micro_batches_in_flight(8, 1, 0, 64), p);
  EXPECT_DOUBLE_EQ(micro_batches_in_flight(8, 3, 0, 64), p * (1 + (p - 1) / (p * v)));
  EXPECT_DOUBLE_EQ(micro_batches_in_flight(8, 1, 7, 64), 1);
  EXPECT_DOUBLE_EQ(micro_batches_in_flight(8, 3, 0, 2), 2) << "no more than there are";
  EXPECT_DOUBLE_EQ(micro_batches_in_flight(1, 1, 0, 64), 1);
}

TEST(RingSelfAttentionMemoryTest, TheBlocksAreThoseOfThePaper) {
  const RsaBlock block{.batch = 3, .sequence = 5, .heads = 2, .head_size = 7, .ranks = 4};
  // B = 3, L = 5, Z = 2, A = 7, N = 4, H = 14, written out.
  EXPECT_DOUBLE_EQ(rsa_mlp_elements(RsaSplit::tensor, block), 1568 + 210 + 210);
  EXPECT_DOUBLE_EQ(rsa_mlp_elements(RsaSplit::sequence, block), 6272 + 262.5);
  EXPECT_DOUBLE_EQ(rsa_attention_elements(RsaSplit::tensor, block), 784 + 210 + 37.5 + 210);
  EXPECT_DOUBLE_EQ(rsa_attention_elements(RsaSplit::sequence, block), 3136 + 210 + 37.5 + 52.5);
  EXPECT_DOUBLE_EQ(rsa_linformer_elements(block, 6), 392 + 105 + 45 + 52.5 + 504);
}

// As the paper says of its tables: BL > 32H for the MLP, BL > 16AZ for attention.
TEST(RingSelfAttentionMemoryTest, SequenceParallelismTakesLessFromManyTokensOn) {
  for (const std::int64_t ranks : {2, 8, 64}) {
    const auto less = [&](auto elements, std::int64_t tokens) {
      const RsaBlock block{
          .batch = 1, .sequence = tokens, .heads = 12, .head_size = 64, .ranks = ranks};
      return elements(RsaSplit::sequence, block) < elements(RsaSplit::tensor, block);
    };
    EXPECT_FALSE(less(rsa_mlp_elements, 32 * 768 - 1));
    EXPECT_TRUE(less(rsa_mlp_elements, 32 * 768 + 1));
    EXPECT_FALSE(less(rsa_attention_elements, 16 * 768 - 1));
    EXPECT_TRUE(less(rsa_attention_elements, 16 * 768 + 1));
  }
}

TEST(PeakActivationTest, IsTableOneOfRingAttention) {
  const double b = 2, s = 4096, c = 512, n = 32, h = 2560;
  const PeakShape shape{.batch = 2, .sequence = 4096, .block = 512, .heads = 32, .hidden = 2560};
  const auto of = [&](Blocking blocking) { return peak_activation(blocking, shape); };
  EXPECT_DOUBLE_EQ(of(Blocking::none).most(), 2 * b * n * s * s);
  EXPECT_DOUBLE_EQ(of(Blocking::none).mlp, 8 * b * s * h);
  EXPECT_DOUBLE_EQ(of(Blocking::attention).attention, 2 * b * s * h + 4 * b * c * h);
  EXPECT_DOUBLE_EQ(of(Blocking::attention).most(), 8 * b * s * h);
  EXPECT_DOUBLE_EQ(of(Blocking::both).most(), 2 * b * s * h);
  EXPECT_DOUBLE_EQ(of(Blocking::ring).most(), 6 * b * c * h);
}

TEST(CheckpointsTest, TakeWhatAlstSays) {
  EXPECT_NEAR(checkpoint_bytes(125'000, 4096, 32) / kGiB, 30.5, 0.05);
  // 70B, 3M tokens on 32 GPUs, eight of them on a node.
  EXPECT_NEAR(checkpoint_bytes(3'000'000 / 32 * 8, 8192, 80) / kGiB, 915, 1);
  EXPECT_NEAR(square_bytes(125'000) / kGiB, 29, 0.2);
  EXPECT_EQ(mlp_tiles(256'000, 4096), 63);
  EXPECT_EQ(mlp_tiles(4096, 4096), 1);
  EXPECT_EQ(square_bytes(128 << 10) / kGiB, 32);
}

TEST(MostWithinTest, IsTheLargestCountThatFits) {
  for (const std::int64_t most : {1, 2, 3, 1000, 4095, 4096, 123'456'789}) {
    EXPECT_EQ(most_within(static_cast<double>(most), [](auto n) { return static_cast<double>(n); }),
              most);
  }
  EXPECT_EQ(most_within(99, [](auto n) { return static_cast<double>(n * n); }), 9);
  EXPECT_EQ(most_within(5, [](std::int64_t) { return 6.0; }), 0);
}

}  // namespace
}  // namespace ringspan::model
