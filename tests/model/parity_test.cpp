// SPDX-License-Identifier: Apache-2.0
// A model trained on several ranks is the model trained on one.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/error.hpp"
#include "model/gradients.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;

const Text& usual_text() {
  static const Text text({29, {17, 0, 1, 8}}, 4, 11, 5);  // uneven, with three tokens of padding
  return text;
}

std::string name(const TrainingSetup& setup) {
  return concat(name(setup.config.variant), " ", setup.schedule, " ", name(setup.mesh),
                " recompute ", name(setup.memory.recompute), " tiles ", setup.memory.mlp_tiles);
}

void expect_parity(const TrainingSetup& setup, double tolerance, const Text& text = usual_text()) {
  TrainingSetup alone = setup;
  alone.mesh = {};
  alone.schedule = "ring";
  alone.memory = {};
  const Outcome one = train(alone, text), many = train(setup, text);
  if (many.gradients.empty() || one.gradients.empty()) return;  // this process has no rank
  EXPECT_EQ(many.count, one.count) << name(setup);
  EXPECT_NEAR(many.loss, one.loss, tolerance * std::abs(one.loss)) << name(setup);
  EXPECT_LE(relative_distance(many.gradients, one.gradients), tolerance) << name(setup);
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
    for (const int ranks : {2, 3, 4, 8}) {
      if (!possible(schedule, ranks)) continue;
      const Variant variant = ranks % 2 == 0 ? Variant::llama : Variant::gpt;
      const MemoryOptions memory{.recompute = ranks == 4   ? Recompute::selective_plus
                                              : ranks == 8 ? Recompute::full
                                                           : Recompute::none};
      expect_parity({tiny(variant, DType::f64), memory, sequence_mesh(schedule, ranks), schedule},
                    1e-12);
    }
  }
}

TEST(ParityTest, EveryAxisOfTheMesh) {
  for (const char* const mesh :
       {"tensor=2", "tensor=4", "tensor=2,ring=2", "data=4", "data=2x2", "ulysses=2,data=2",
        "tensor=2,ulysses=2,data=2", "ulysses=2,ring=2,data=2", "tensor=2,ring=3"}) {
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
    expect_parity({tiny(Variant::llama, DType::f64), tiles, shape, "usp"}, 1e-12, short_text);
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
