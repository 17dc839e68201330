// SPDX-License-Identifier: Apache-2.0
// Memory and FLOPs of a training step, against the formulas of Korthikanti et al. (arXiv
// 2205.05198), written here as they stand there, and against published sizes of models.
#include "bench/training/training_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/step_flops.hpp"

namespace ringspan::bench {
namespace {

/// The symbols of the paper.
struct Paper {
  double s, b, h, a, t, L, v;
};

TrainingConfig gpt_config() {
  TrainingConfig config;
  config.sequence_length = 2048;
  config.micro_batch = 4;
  config.global_batch = 4;
  config.tensor = 8;
  config.attention = AttentionKind::materialised;
  config.dropout = true;
  return config;
}

Paper paper(const Model& model, const TrainingConfig& config) {
  return {static_cast<double>(config.sequence_length), static_cast<double>(config.micro_batch),
          static_cast<double>(model.hidden),           static_cast<double>(model.heads),
          static_cast<double>(config.tensor),          static_cast<double>(model.layers),
          static_cast<double>(model.vocabulary)};
}

TEST(TrainingMemoryTest, ALayerKeepsWhatTheEquationsSay) {
  for (const char* name : {"megatron-22b", "gpt3-175b", "megatron-530b", "megatron-1t"}) {
    const Model& gpt = model(name);
    TrainingConfig config = gpt_config();
    const auto [s, b, h, a, t, L, v] = paper(gpt, config);
    const auto bytes = [&] { return layer_activation_bytes(gpt, config); };

    config.tensor = 1;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h * (34 + 5 * a * s / h)) << "on one GPU";
    config.tensor = 8;
    config.tensor_sequence_parallel = false;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h * (10 + 24 / t + 5 * a * s / (h * t)))
        << "tensor parallelism";
    config.tensor_sequence_parallel = true;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h / t * (34 + 5 * a * s / h)) << "with sequence parallelism";
    config.recompute = Recompute::selective;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h / t * 34) << "with selective recompute, too";
    config.recompute = Recompute::full;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h / t * 2);
    config.tensor_sequence_parallel = false;
    EXPECT_DOUBLE_EQ(bytes(), s * b * h * 2) << "full recompute";
  }
}

TEST(TrainingMemoryTest, FlashAttentionKeepsTheLseInsteadOfScores) {
  const Model& gpt = model("gpt3-175b");
  TrainingConfig config = gpt_config();
  config.recompute = Recompute::selective;
  const double selective = layer_activation_bytes(gpt, config);
  config.recompute = Recompute::none;
  config.attention = AttentionKind::flash;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(gpt, config), selective + 4.0 * 4 * 2048 * 96 / 8);
}

TEST(TrainingMemoryTest, GroupedHeadsAndGatedMlpsKeepWhatTheyHave) {
  const Model& llama = model("llama3-8b");
  TrainingConfig config;
  config.sequence_length = 8192;
  const double tokens = 8192, h = 4096, kv = 1024, ffn = 14336;
  // Norms and what goes into both halves, q and out, k and v, gate, up and their product; lse.
  const double whole = tokens * (2 * (4 * h + 2 * h + 2 * kv + 3 * ffn) + 4 * 32);
  EXPECT_DOUBLE_EQ(layer_activation_bytes(llama, config), whole);
  config.ulysses = 4;
  config.ring = 2;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(llama, config), whole / 8);
}

TEST(TrainingMemoryTest, TheFirstStageKeepsWhatThePipelineHasInFlight) {
  const Model& gpt = model("gpt3-175b");
  TrainingConfig config = gpt_config();
  config.micro_batch = 1;
  config.global_batch = 64;
  config.pipeline = 8;
  config.recompute = Recompute::selective;
  const auto [s, b, h, a, t, L, v] = paper(gpt, config);
  const double all_layers = L * s * b * h / t * 34, mask = s * b * h / t;
  EXPECT_DOUBLE_EQ(training_memory(gpt, config).activations, all_layers + 8 * mask);
  config.pipeline_interleave = 3;
  EXPECT_DOUBLE_EQ(training_memory(gpt, config).activations,
                   all_layers * (1 + 7.0 / (8 * 3)) + 8 * mask);
  config.pipeline_interleave = 1;
  config.global_batch = 2;
  EXPECT_DOUBLE_EQ(training_memory(gpt, config).activations, all_layers * 2 / 8 + 2 * mask);
}

// sbhL/t (p/L + 4/L (1 + v/h)) for p = 1; the paper leaves out the logits of 16 bits.
TEST(TrainingMemoryTest, AroundTheLayersIsWhatTheEquationSays) {
  const Model& gpt = model("megatron-22b");
  TrainingConfig config = gpt_config();
  const auto [s, b, h, a, t, L, v] = paper(gpt, config);
  const TrainingMemory memory = training_memory(gpt, config);
  EXPECT_DOUBLE_EQ(memory.activations + memory.logits,
                   L * layer_activation_bytes(gpt, config) +
                       s * b * h * L / t * (1 / L + 4 / L * (1 + v / h)) + 2 * s * b * v / t);
}

// Its logits make it the one that holds most: of three chunks the last is at one micro-batch, those
// before it at eight.
TEST(TrainingMemoryTest, ChunksOfTheLastStageAreInFlightToo) {
  Model gpt = model("gpt3-175b");
  gpt.vocabulary = 16 << 20;
  TrainingConfig config = gpt_config();
  config.micro_batch = 1;
  config.global_batch = 64;
  config.pipeline = 8;
  config.recompute = Recompute::selective;
  const double micro_batch = layer_activation_bytes(gpt, config) * 96 / 8;
  EXPECT_GT(training_memory(gpt, config).logits, 0);
  EXPECT_DOUBLE_EQ(training_memory(gpt, config).activations, micro_batch);
  config.pipeline_interleave = 3;
  EXPECT_GT(training_memory(gpt, config).logits, 0);
  EXPECT_DOUBLE_EQ(training_memory(gpt, config).activations, micro_batch * (2 * 8 + 1) / 3);
}

// With gradients of 16 bits; results/training.md has the numbers.
TEST(TrainingMemoryTest, MegatronsModelsFitByRecomputingAlone) {
  struct Size {
    const char* name;
    int pipeline, interleave;
    std::int64_t batch, micro_batch;
  };
  for (const Size& size :
       {Size{"megatron-22b", 1, 1, 4, 4}, Size{"gpt3-175b", 8, 3, 64, 1},
        Size{"megatron-530b", 35, 3, 280, 1}, Size{"megatron-1t", 64, 1, 512, 1}}) {
    TrainingConfig config = gpt_config();
    config.pipeline = size.pipeline;
    config.pipeline_interleave = size.interleave;
    config.global_batch = size.batch;
    config.micro_batch = size.micro_batch;
    config.gradient_bytes = 2;
    const auto gigabytes = [&] { return training_memory(model(size.name), config).total() / 1e9; };
    config.tensor_sequence_parallel = false;
    const double tensor = gigabytes();
    config.tensor_sequence_parallel = true;
    const double sequence = gigabytes();
    config.recompute = Recompute::selective;
    const double selective = gigabytes();
    SCOPED_TRACE(testing::Message()
                 << size.name << ": " << tensor << ' ' << sequence << ' ' << selective);
    EXPECT_THAT(tensor, testing::AllOf(testing::Gt(107.5), testing::Lt(178.5)));
    EXPECT_THAT(sequence, testing::AllOf(testing::Gt(86.5), testing::Lt(117.5)));
    EXPECT_THAT(selective, testing::AllOf(testing::Gt(54.5), testing::Lt(63.5)));
  }
}

TEST(TrainingMemoryTest, ZeroShardsOptimizerThenGradientsThenParameters) {
  const Model& llama = model("llama2-7b");
  TrainingConfig config;
  config.sequence_length = 4096;
  config.ring = 4;
  config.data = 2;
  const double held = static_cast<double>(parameters(llama));
  const auto close = [](double value, double expected) {
    EXPECT_NEAR(value / expected, 1, 1e-6);  // biggest difference: the last norm
  };
  for (int stage = 0; stage <= 3; ++stage) {
    config.zero_stage = stage;
    const TrainingMemory memory = training_memory(llama, config);
    close(memory.optimizer, held * 12 / (stage >= 1 ? 8 : 1));
    close(memory.gradients, held * 4 / (stage >= 2 ? 8 : 1));
    close(memory.parameters, held * 2 / (stage >= 3 ? 8 : 1));
  }
}

TEST(TrainingMemoryTest, ModelsHaveAsManyParametersAsTheyAreNamedFor) {
  EXPECT_EQ(parameters(model("llama2-7b")), 6'738'415'616);
  EXPECT_EQ(parameters(model("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(parameters(model("llama3-70b")), 70'553'706'496);
  EXPECT_EQ(parameters(model("llama3-405b")), 405'853'388'800);
  const auto near = [](const char* name, double billions) {
    EXPECT_NEAR(static_cast<double>(parameters(model(name))) / (billions * 1e9), 1, 0.02) << name;
  };
  near("gpt3-175b", 175);
  near("megatron-22b", 22);
  near("megatron-530b", 530);
  near("megatron-1t", 1008);
  near("qwen3-235b", 235);
  near("qwen3-32b", 32.8);
}

TEST(StepFlopsTest, MegatronCountsItsTransformersByOneFormula) {
  const Model& gpt = model("megatron-22b");
  TrainingConfig config = gpt_config();
  const auto [s, b, h, a, t, L, v] = paper(gpt, config);
  const double model_flops = 72 * b * L * s * h * h * (1 + s / (6 * h) + v / (12 * h * L));
  FlopsConvention megatron{"Megatron-LM", 1, true, true, false};
  EXPECT_NEAR(step_flops(gpt, config, megatron) / model_flops, 1, 1e-12);

  // Appendix A: selective recompute doubles the forward pass of attention's core.
  megatron.recompute = true;
  config.recompute = Recompute::selective;
  const double hardware =
      72 * b * L * s * h * h * (1 + s / (6 * h) + v / (12 * h * L)) + 4 * b * L * s * s * h;
  EXPECT_NEAR(step_flops(gpt, config, megatron) / hardware, 1, 1e-12);
  config.recompute = Recompute::full;
  const double again = 24 * b * L * s * h * h * (1 + s / (6 * h));
  EXPECT_NEAR(step_flops(gpt, config, megatron) / (model_flops + again), 1, 1e-12);
}

TEST(StepFlopsTest, LayersThatAreNotGptCountAsTheyAre) {
  const Model& llama = model("llama3-8b");
  TrainingConfig config;
  config.sequence_length = 1000;
  config.global_batch = 3;
  const double norms = 65.0 * 4096, embedding = 128256.0 * 4096;
  const double products = 6 * (static_cast<double>(parameters(llama)) - norms - embedding);
  const double causal = 6 * 32 * 1000.0 * 4096;  // 3 passes x 4 x layers x sequence / 2 x width
  EXPECT_NEAR(step_flops(llama, config, kModelFlops) / (3000 * (products + causal)), 1, 1e-12);
  EXPECT_EQ(step_flops(llama, config, kHardwareFlops), step_flops(llama, config, kModelFlops));
}

}  // namespace
}  // namespace ringspan::bench
