// SPDX-License-Identifier: Apache-2.0
// Two hundred steps of training on several ranks stay by those on one.
//
// The bound: sums in another order round a gradient differently, by about epsilon of it. AdamW's
// step, m / sqrt(v), has no scale of its own, so an update differs by about epsilon of itself and
// moves the loss by a share of what the step does. While training descends, steps do not amplify
// each other's differences, and they add up at most linearly: steps * epsilon of the first loss.
// Measured: a fifth of it in fp64, a ninth in fp32. (AdamW hides the scale of a gradient: that the
// first gradient is right shows it.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/comm/transport_under_test.hpp"
#include "tests/model/training_run.hpp"

namespace ringspan::model::test {
namespace {

using attention::DType;

constexpr int kSteps = 200;

/// The largest difference of a step's loss, as a share of the first.
double drift(const Outcome& many, const Outcome& one) {
  double largest = 0;
  for (std::size_t step = 0; step < many.losses.size(); ++step) {
    largest = std::max(largest, std::abs(many.losses[step] - one.losses.at(step)) / one.losses[0]);
  }
  return largest;
}

TrainingSetup training(Variant variant, DType dtype, const MeshShape& mesh) {
  TrainingSetup setup{tiny(variant, dtype), {}, mesh, "usp", kSteps};
  setup.config.layers = 1;
  return setup;
}

void expect_small_drift(DType dtype, double epsilon) {
  const Text text({24, {14, 10}}, 2, 11, 7);
  for (const Variant variant : {Variant::llama, Variant::gpt}) {
    const Outcome one = train(training(variant, dtype, {}), text);
    for (const char* const mesh : {"ring=2", "ulysses=2,ring=2", "tensor=2,data=2"}) {
      const MeshShape shape = parse_mesh(mesh);
      if (!comm::test::enough_processes(shape.tensor * shape.sequence() * shape.data())) continue;
      const Outcome many = train(training(variant, dtype, shape), text);
      if (many.losses.empty() || one.losses.empty()) continue;  // this process has no rank
      EXPECT_LT(many.losses.back(), 0.9 * many.losses.front()) << "nothing was learned";
      EXPECT_LE(drift(many, one), kSteps * epsilon) << name(variant) << " " << mesh;
    }
  }
}

TEST(DriftTest, IsRoundingInFp64) {
  expect_small_drift(DType::f64, std::numeric_limits<double>::epsilon());
}

TEST(DriftTest, IsRoundingInFp32) {
  expect_small_drift(DType::f32, std::numeric_limits<float>::epsilon());
}

}  // namespace
}  // namespace ringspan::model::test
