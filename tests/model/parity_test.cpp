// SPDX-License-Identifier: Apache-2.0
// A model trained on several ranks is the model trained on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/error.hpp"
#include "model/gradients.hpp"
#include "model/trainer.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;
using testing::HasSubstr;

// Sanitizers take ten times as long: they get one case of each kind.
#ifdef RINGSPAN_SANITIZED
constexpr bool kSanitized = true;
constexpr std::array kRanks{3};
constexpr std::array kMeshes{"tensor=2,ring=2", "ulysses=2,data=2"};
#else
constexpr bool kSanitized = false;
constexpr std::array kRanks{2, 3, 4, 8};
constexpr std::array kMeshes{
    "tensor=2",       "tensor=4",         "tensor=2,ring=2",           "data=4",
    "data=2x2",       "ulysses=2,data=2", "tensor=2,ulysses=2,data=2", "ulysses=2,ring=2,data=2",
    "tensor=2,ring=3"};
#endif

const Text& usual_text() {
  static const Text text({29, {17, 0, 1, 8}}, 4, 11, 5);  // uneven, with three tokens of padding
  return text;
}

std::string name(const TrainingSetup& setup) {
  return concat(name(setup.config.variant), " ", setup.schedule, " ", name(setup.mesh),
                " recompute ", name(setup.memory.recompute), " tiles ", setup.memory.mlp_tiles);
}

/// On one rank with nothing recomputed, which is what all else is compared with.
Outcome alone(const ModelConfig& config, const Text& text) {
  return train({config, {}, {}, "ring"}, text);
}

/// Of the usual text, once.
const Outcome& usual_outcome(const ModelConfig& config) {
  static std::map<std::tuple<Variant, DType, std::optional<std::int64_t>>, Outcome> known;
  const auto [found, added] = known.try_emplace({config.variant, config.dtype, config.window});
  if (added) found->second = alone(config, usual_text());
  return found->second;
}

void expect_same(const Outcome& many, const Outcome& one, double tolerance,
                 const TrainingSetup& setup) {
  if (many.gradients.empty() || one.gradients.empty()) return;  // this process has no rank
  EXPECT_EQ(many.count, one.count) << name(setup);
  EXPECT_NEAR(many.loss, one.loss, tolerance * std::abs(one.loss)) << name(setup);
  EXPECT_LE(relative_distance(many.gradients, one.gradients), tolerance) << name(setup);
}

void expect_parity(const TrainingSetup& setup, double tolerance) {
  const Outcome& one = usual_outcome(setup.config);
  expect_same(train(setup, usual_text()), one, tolerance, setup);
}

bool possible(const std::string& schedule, int ranks) {
  return comm::test::enough_processes(ranks) && !(schedule == "usp" && ranks % 2 == 1);
}

MeshShape sequence_mesh(const std::string& schedule, int ranks) {
  MeshShape mesh;
  mesh.ulysses = schedule == "usp" ? 2 : 1;
  mesh.ring = ranks / mesh.ulysses;
  return mesh;
}

// In fp64 nothing but the order of sums differs; every fault of a schedule, mask, label or scale is
// many times larger.
TEST(ParityTest, EveryScheduleOnAnyNumberOfRanks) {
  for (const attention::ScheduleEntry& entry : attention::schedules()) {
    const std::string schedule(entry.name);
    for (const int ranks : kRanks) {
      if (!possible(schedule, ranks)) continue;
      TrainingSetup setup{tiny(ranks % 2 == 0 ? Variant::llama : Variant::gpt, DType::f64)};
      if (schedule == "halo") setup.config.window = 6;  // what it is for
      setup.memory.recompute = ranks == 4   ? Recompute::selective_plus
                               : ranks == 8 ? Recompute::full
                                            : Recompute::none;
      setup.mesh = sequence_mesh(schedule, ranks);
      setup.schedule = schedule;
      expect_parity(setup, 1e-12);
      setup.config.dtype = DType::f32;
      if (ranks == 3 && !kSanitized) expect_parity(setup, 1e-6);
    }
  }
}

// LoongTrain, head first and context first; BurstAttention's backward pass.
TEST(ParityTest, TwoRingsInEitherPlacementAndBothFormsOfTheBackwardPass) {
  if (!comm::test::enough_processes(8)) return;
  for (const auto placement :
       {attention::Placement::ulysses_inner, attention::Placement::ring_inner}) {
    for (const auto backward : {attention::BackwardForm::kv, attention::BackwardForm::q}) {
      TrainingSetup setup{tiny(Variant::llama, DType::f64)};
      setup.memory.recompute = Recompute::selective_plus;
      setup.mesh = {.ulysses = 2, .ring = 4, .placement = placement};
      setup.schedule = "usp";
      setup.inner_ring = 2;
      setup.backward = backward;
      expect_parity(setup, 1e-12);
      if (kSanitized) return;
    }
  }
}

TEST(ParityTest, EveryAxisOfTheMesh) {
  for (const char* const mesh : kMeshes) {
    const MeshShape shape = parse_mesh(mesh);
    if (!comm::test::enough_processes(shape.tensor * shape.sequence() * shape.data())) continue;
    for (const Variant variant : {Variant::llama, Variant::gpt}) {
      const MemoryOptions memory{.recompute =
                                     variant == Variant::gpt ? Recompute::full : Recompute::none};
      expect_parity({tiny(variant, DType::f64), memory, shape, "usp"}, 1e-12);
    }
  }
}

TEST(ParityTest, EveryWayToSaveMemory) {
  const MeshShape mesh = parse_mesh("tensor=2,ring=2");
  if (!comm::test::enough_processes(4)) return;
  for (const Recompute recompute :
       {Recompute::none, Recompute::selective, Recompute::selective_plus, Recompute::full}) {
    for (const bool tiled : {false, true}) {
      for (const bool blockwise : {false, true}) {
        if (kSanitized && !tiled) continue;
        const MemoryOptions memory{recompute, tiled, tiled ? 5 : 1, blockwise, tiled ? 3 : 1};
        const Variant variant = blockwise ? Variant::gpt : Variant::llama;
        expect_parity({tiny(variant, DType::f64), memory, mesh, "zigzag"}, 1e-12);
      }
    }
  }
}

TEST(ParityTest, RanksMayHaveNoTokens) {
  const Text short_text({3, {2, 1}}, 2, 11, 6);
  for (const char* const mesh : {"ring=4", "tensor=4", "ulysses=2,ring=2", "tensor=2,ring=3"}) {
    const MeshShape shape = parse_mesh(mesh);
    if (!comm::test::enough_processes(shape.tensor * shape.sequence())) continue;
    const MemoryOptions tiles{.recompute = Recompute::full, .mlp_tiles = 2, .loss_tiles = 2};
    const TrainingSetup setup{tiny(Variant::llama, DType::f64), tiles, shape, "usp"};
    expect_same(train(setup, short_text), alone(setup.config, short_text), 1e-12, setup);
  }
}

/// Of a step on each of the texts, one after the other; empty where this process is not rank 0.
std::vector<double> losses(const TrainingSetup& setup, const std::vector<Text>& texts) {
  std::vector<double> losses;
  comm::LaunchOptions options{.ranks = setup.mesh.tensor * setup.mesh.sequence()};
  options.debug = {.ledger = true, .poison = true};
  comm::test::launch(options, [&](const comm::Communicator& world) {
    RankModel rank(world, setup, texts[0]);
    Trainer trainer(rank.model, rank.mesh, {});
    for (const Text& text : texts) {
      const Tokens tokens = text.tokens(rank.schedule->shard(text.sequence), 0, text.samples);
      const double loss = trainer.step(text.sequence, tokens).mean();
      if (world.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

TEST(ParityTest, EveryBatchMayHaveALengthOfItsOwn) {
  const std::vector<Text> texts{{{29, {17, 0, 1, 8}}, 2, 11, 5},
                                {{13}, 1, 11, 6},
                                {{40, {40}}, 3, 11, 7},
                                {{29, {9, 20}}, 2, 11, 8},
                                {{29, {17, 0, 1, 8}}, 2, 11, 5}};
  for (const char* const mesh : {"ring=3", "tensor=2,ulysses=2"}) {
    const MeshShape shape = parse_mesh(mesh);
    if (!comm::test::enough_processes(shape.tensor * shape.sequence())) continue;
    const ModelConfig config = tiny(Variant::llama, DType::f64);
    const std::vector<double> one = losses({config}, texts);
    const std::vector<double> many = losses({config, {}, shape, "usp"}, texts);
    if (many.empty()) continue;
    ASSERT_EQ(many.size(), texts.size());
    for (std::size_t i = 0; i < many.size(); ++i) EXPECT_NEAR(many[i], one[i], 1e-11) << mesh;
    EXPECT_LT(many.back(), many.front()) << "nothing was learned";
  }
}

TEST(ParityTest, HoldsInFp32) {
  for (const char* const mesh : {"ring=2", "ulysses=2,ring=2,data=2", "tensor=2,ring=2"}) {
    const MeshShape shape = parse_mesh(mesh);
    if (!comm::test::enough_processes(shape.tensor * shape.sequence() * shape.data())) continue;
    for (const Variant variant : {Variant::llama, Variant::gpt}) {
      expect_parity({tiny(variant, DType::f32), {}, shape, "usp"}, 1e-6);
    }
  }
}

TEST(ParityTest, RefusesWeightsThatAreNone) {
  if (!comm::test::enough_processes(1)) return;
  const TrainingSetup setup{tiny(Variant::llama, DType::f64), {}, {}, "ring"};
  const auto refused = [&](const std::function<void(std::vector<float>&)>& change) {
    const auto error = comm::test::failure_of({.ranks = 1}, [&](const comm::Communicator& world) {
      RankModel rank(world, setup, usual_text());
      change(rank.tokens.weights);
      rank.model.loss(usual_text().sequence, rank.tokens);
    });
    return std::string(error ? error->what() : "nothing was refused");
  };
  EXPECT_THAT(refused([](auto& weights) { weights.pop_back(); }), HasSubstr("weights for "));
  EXPECT_THAT(refused([](auto& weights) { weights.back() = -1; }),
              HasSubstr("weight of a token -1; it must be finite and at least 0"));
  EXPECT_THAT(refused([](auto& weights) { weights[0] = NAN; }), HasSubstr("weight of a token"));
}

TEST(ParityTest, ABatchWithoutLabelsHasNeitherLossNorGradient) {
  Text ignored = usual_text();
  std::fill(ignored.whole.labels.begin(), ignored.whole.labels.end(), kIgnoredLabel);
  if (!comm::test::enough_processes(2)) return;
  const TrainingSetup setup{tiny(Variant::llama, DType::f64), {}, parse_mesh("ring=2"), "ring"};
  const Outcome outcome = train(setup, ignored);
  if (outcome.gradients.empty()) return;
  EXPECT_EQ(outcome.count, 0);
  EXPECT_EQ(outcome.loss, 0);
  for (const double value : outcome.gradients) ASSERT_EQ(value, 0);
}

TEST(ParityTest, ARankWithoutLabelsTakesPartInTheBackwardPass) {
  if (!comm::test::enough_processes(2)) return;
  Text half = usual_text();
  std::vector<std::int64_t>& labels = half.whole.labels;
  const std::int64_t length = std::ssize(labels) / half.samples;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i)
    if (i % length >= length / 2) labels[i] = kIgnoredLabel;  // all that rank 1 has
  const TrainingSetup setup{tiny(Variant::llama, DType::f64), {}, parse_mesh("ring=2"), "ring"};
  expect_same(train(setup, half), alone(setup.config, half), 1e-12, setup);
}

TEST(ParityTest, OneBitMoreOnOneRankIsNoticed) {
  if (!comm::test::enough_processes(2)) return;
  comm::LaunchOptions options;
  options.ranks = 2;
  const std::optional<Error> error = comm::test::failure_of(options, [](const comm::Communicator&
                                                                            world) {
    const TrainingSetup setup{tiny(Variant::llama, DType::f32), {}, parse_mesh("ring=2"), "ring"};
    RankModel rank(world, setup, usual_text());
    require_equal_parameters(rank.mesh, rank.model.parameters());
    float* const last = rank.model.parameters().values().data<float>() +
                        rank.model.parameters().values().elements() - 1;
    if (world.rank() == 1) *last = std::nextafter(*last, 1.0F);
    require_equal_parameters(rank.mesh, rank.model.parameters());
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "parameters of rank 1 are not those of rank 0, bit for bit");
}

}  // namespace
}  // namespace ringspan::model::test
