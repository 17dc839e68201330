// SPDX-License-Identifier: Apache-2.0
#include "model/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/random.hpp"
#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;

struct Moments {
  double m = 0, v = 0;
};

/// The update as the paper has it, one weight at a time.
double updated(double w, double g, bool matrix, int step, const AdamWConfig& config,
               Moments& moments) {
  moments.m = config.beta1 * moments.m + (1 - config.beta1) * g;
  moments.v = config.beta2 * moments.v + (1 - config.beta2) * g * g;
  const double m = moments.m / (1 - std::pow(config.beta1, step));
  const double v = moments.v / (1 - std::pow(config.beta2, step));
  const double decayed = matrix ? w - config.learning_rate * config.weight_decay * w : w;
  return decayed - config.learning_rate * m / (std::sqrt(v) + config.epsilon);
}

TEST(AdamWTest, UpdatesAsItsPaperSays) {
  comm::test::launch({}, [](const comm::Communicator& world) {
    Parameters parameters(world, DType::f64);
    parameters.add({"matrix", 3, 4, Cut::none, {0, 1}});
    parameters.add({"vector", 1, 5, Cut::none, {1, 0.5}});
    parameters.allocate(7);
    const AdamWConfig config{.learning_rate = 0.1, .weight_decay = 0.3};
    AdamW optimizer(config, parameters, world);
    double* const values = parameters.values().data<double>();
    double* const gradients = parameters.gradients().data<double>();
    std::vector<double> expected(values, values + 17);
    std::vector<Moments> moments(17);
    for (int step = 1; step <= 4; ++step) {
      for (int i = 0; i < 17; ++i) {
        gradients[i] = random_normal(step, i);
        expected[i] = updated(expected[i], gradients[i], i < 12, step, config, moments[i]);
      }
      optimizer.step();
      for (int i = 0; i < 17; ++i) {
        EXPECT_NEAR(values[i], expected[i], 1e-14) << i;
        EXPECT_EQ(gradients[i], 0);
      }
    }
  });
}

TEST(AdamWTest, ShardedStateTakesTheSameSteps) {
  if (!comm::test::enough_processes(4)) return;
  const Text text({13, {}}, 4, 11, 3);
  TrainingSetup setup{tiny(Variant::llama, DType::f32), {}, {}, "ring", 5};
  std::vector<std::vector<double>> losses;
  for (const char* const mesh : {"replicate=4", "shard=4", "replicate=2,shard=2"}) {
    setup.mesh = parse_mesh(mesh);
    losses.push_back(train(setup, text).losses);
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
}

TEST(AdamWTest, EachRankKeepsItsShareOfTheState) {
  if (!comm::test::enough_processes(3)) return;
  comm::LaunchOptions options;
  options.ranks = 3;
  comm::test::launch(options, [](const comm::Communicator& world) {
    Parameters parameters(world.split(world.rank(), 0), DType::f32);
    parameters.add({"matrix", 5, 4, Cut::none, {0, 1}});
    parameters.allocate(7);
    const AdamW optimizer({}, parameters, world);
    EXPECT_EQ(optimizer.state_bytes(), 2 * 4 * (world.rank() < 2 ? 7 : 6));
  });
}

TEST(AdamWTest, RefusesRatesThatAreNone) {
  comm::test::launch({}, [](const comm::Communicator& world) {
    Parameters parameters(world, DType::f32);
    parameters.allocate(1);
    EXPECT_THROW(AdamW({.learning_rate = -1}, parameters, world), Error);
    EXPECT_THROW(AdamW({.beta1 = 1}, parameters, world), Error);
    EXPECT_THROW(AdamW({.beta2 = -0.1}, parameters, world), Error);
    EXPECT_THROW(AdamW({.epsilon = 0}, parameters, world), Error);
    EXPECT_THROW(AdamW({.weight_decay = -1}, parameters, world), Error);
  });
}

}  // namespace
}  // namespace ringspan::model::test
