// SPDX-License-Identifier: Apache-2.0
// The gradient of the whole model against what the loss itself does when parameters move.
#include <gtest/gtest.h>

#include <cmath>

#include "model/random.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;

// Central differences in fp64: the step's square times the third derivative, and rounding over the
// step, are both near 1e-10 of the loss.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;

void move(const Parameter& parameter, std::uint64_t seed, double step) {
  double* const values = parameter.value.data<double>();
  for (std::int64_t i = 0; i < parameter.value.elements(); ++i) {
    values[i] += step * random_normal(seed, i);
  }
}

double along(const Parameter& parameter, std::uint64_t seed) {
  double slope = 0;
  const double* const gradient = parameter.gradient.data<double>();
  for (std::int64_t i = 0; i < parameter.gradient.elements(); ++i) {
    slope += gradient[i] * random_normal(seed, i);
  }
  return slope;
}

/// Every parameter moves along random directions by itself.
void expect_gradient_of_loss(Variant variant, const MemoryOptions& memory) {
  const Text text({13, {5, 0, 6}}, 2, 11, 3);
  comm::test::launch({}, [&](const comm::Communicator& world) {
    RankModel rank(world, {tiny(variant, DType::f64), memory}, text);
    const auto loss = [&] { return rank.model.loss(text.sequence, rank.tokens).sum; };
    rank.model.loss_and_gradients(text.sequence, rank.tokens, 0);
    for (const Parameter& parameter : rank.model.parameters().all()) {
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        move(parameter, seed, kStep);
        const double above = loss();
        move(parameter, seed, -2 * kStep);
        const double below = loss();
        move(parameter, seed, kStep);
        const double slope = along(parameter, seed);
        EXPECT_NEAR((above - below) / (2 * kStep), slope, kTolerance * (1 + std::abs(slope)))
            << parameter.name;
      }
    }
  });
}

TEST(FiniteDifferenceTest, LlamaHasTheGradientOfItsLoss) {
  expect_gradient_of_loss(Variant::llama, {});
}

TEST(FiniteDifferenceTest, GptHasTheGradientOfItsLoss) {
  expect_gradient_of_loss(Variant::gpt, {});
}

TEST(FiniteDifferenceTest, SoHaveTiledAndRecomputedOnes) {
  for (const Variant variant : {Variant::llama, Variant::gpt}) {
    expect_gradient_of_loss(
        variant,
        {.recompute = Recompute::full, .mlp_tiles = 3, .blockwise = true, .loss_tiles = 2});
  }
}

// A slope of zero everywhere would be confirmed, too.
TEST(FiniteDifferenceTest, NoParameterIsWithoutGradient) {
  const Text text({13, {5, 0, 6}}, 2, 11, 3);
  for (const Variant variant : {Variant::llama, Variant::gpt}) {
    comm::test::launch({}, [&](const comm::Communicator& world) {
      RankModel rank(world, {tiny(variant, DType::f64)}, text);
      rank.model.loss_and_gradients(text.sequence, rank.tokens, 0);
      for (const Parameter& parameter : rank.model.parameters().all()) {
        // A bias of all keys moves all logits of a row alike.
        const bool none = parameter.name.find(".k.bias") != std::string::npos;
        EXPECT_EQ(std::abs(along(parameter, 1)) < 1e-10, none) << parameter.name;
      }
    });
  }
}

}  // namespace
}  // namespace ringspan::model::test
