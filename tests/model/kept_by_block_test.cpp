// SPDX-License-Identifier: Apache-2.0
// What the device counts while a model trains, on one to eight ranks, beside the formula.
#include "model/memory/kept_by_block.hpp"

#include <gtest/gtest.h>

#include <span>

#include "comm/collectives.hpp"
#include "comm/split_evenly.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;

ModelConfig config_of(Variant variant, std::int64_t layers) {
  ModelConfig config = tiny(variant, DType::f32);
  config.mlp_hidden = 24;  // tensor groups cut it
  config.hidden = 16;
  config.positions = 128;
  config.layers = layers;
  return config;
}

constexpr MemoryOptions kOptions[] = {
    {},
    {.recompute = Recompute::selective},
    {.recompute = Recompute::selective_plus},
    {.recompute = Recompute::full},
    {.recompute = Recompute::full, .offload = true},
    {.recompute = Recompute::none, .offload = true, .mlp_tiles = 3, .loss_tiles = 2},
    {.recompute = Recompute::selective, .mlp_tiles = 2, .blockwise = true},
    {.recompute = Recompute::full, .mlp_tiles = 4, .blockwise = true, .loss_tiles = 4},
};

/// The most at once in a pass forward and backward, beyond what was there before it.
std::int64_t peak(const comm::Communicator& world, const TrainingSetup& setup, const Text& text) {
  RankModel rank(world, setup, text);
  rank.model.loss_and_gradients(text.sequence, rank.tokens, 0);  // the plan's buffers are there
  world.device().reset_peak();
  const std::int64_t before = world.device().memory().current;
  rank.model.loss_and_gradients(text.sequence, rank.tokens, 0);
  return world.device().memory().peak - before;
}

/// At the peak all layers' states are there: two layers more take twice what one keeps, on each
/// rank by the rows that it has.
void expect_as_the_formula_says(const MeshShape& mesh, const std::string& schedule,
                                std::int64_t tokens, std::int64_t samples,
                                std::span<const MemoryOptions> options = kOptions) {
  for (const Variant variant : {Variant::llama, Variant::gpt}) {
    for (const MemoryOptions& memory : options) {
      const bool keeps_mlp = memory.recompute == Recompute::none && memory.mlp_tiles == 1;
      if (variant == Variant::gpt && !keeps_mlp) continue;  // all else is the same
      const Text text({tokens}, samples, 11, 3);
      TrainingSetup few{config_of(variant, 2), memory, mesh, schedule}, more = few;
      more.config.layers = 4;
      comm::test::launch({.ranks = mesh.tensor * mesh.sequence()}, [&](const auto& world) {
        const RankModel rank(world, few, text);
        const TensorGroup group(rank.mesh.tensor(), rank.tokens.rows() / samples, samples);
        const RankRows rows{group.rows(), group.piece().count, mesh.tensor};
        EXPECT_EQ(peak(world, more, text) - peak(world, few, text),
                  2 * kept_by_block(few.config, memory, rows))
            << name(variant) << ", " << name(memory.recompute) << ", tiles " << memory.mlp_tiles
            << ", " << name(mesh) << ", rank " << world.rank();
      });
    }
  }
}

TEST(KeptByBlockTest, IsWhatOneToEightRanksOfARingMeasure) {
  for (const int ranks : {1, 2, 4, 8}) {
    expect_as_the_formula_says({.ring = ranks}, "zigzag", 64, 1);
  }
}

TEST(KeptByBlockTest, HoldsForUnevenShardsAndSeveralSamples) {
  expect_as_the_formula_says({.ring = 3}, "striped", 31, 2);
}

// Where the heads' q, k, v and out are sent again.
TEST(KeptByBlockTest, HoldsWithUlyssesWhoseAttentionIsKeptOrRecomputed) {
  constexpr MemoryOptions kRecomputed[] = {{.recompute = Recompute::selective_plus},
                                           {.recompute = Recompute::full}};
  expect_as_the_formula_says({.ulysses = 2, .ring = 2}, "usp", 36, 2, kRecomputed);
  expect_as_the_formula_says({.ring = 2}, "ulysses_overlapped", 36, 1, kRecomputed);
}

TEST(KeptByBlockTest, HoldsInTensorGroups) {
  expect_as_the_formula_says({.tensor = 2, .ring = 2}, "ring", 36, 1);
}

}  // namespace
}  // namespace ringspan::model::test
