// SPDX-License-Identifier: Apache-2.0
// Corners of single layers. That their gradients are right, finite differences of whole models say.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "comm/devices/host.hpp"
#include "model/layers/cross_entropy.hpp"
#include "model/layers/dropout.hpp"
#include "model/layers/rms_norm.hpp"
#include "model/layers/rotary.hpp"
#include "model/layers/swiglu.hpp"

namespace ringspan::model {
namespace {

class LayersTest : public testing::Test {
 protected:
  Matrix matrix(std::int64_t rows, std::int64_t columns, const std::vector<float>& values) const {
    const Matrix matrix(*device_, DType::f32, rows, columns);
    std::copy(values.begin(), values.end(), matrix.data<float>());
    return matrix;
  }
  static std::vector<float> values(const Matrix& matrix) {
    return {matrix.data<float>(), matrix.data<float>() + matrix.elements()};
  }

  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
};

TEST_F(LayersTest, RotaryTellsNeighboursApartAMillionTokensOn) {
  constexpr std::int64_t kFar = 1 << 20;
  const std::vector<std::int64_t> positions{kFar, kFar + 1};
  const Matrix x = matrix(2, 2, {1, 0, 1, 0});
  rotate(x, 2, positions, 10000, Turn::forward);
  for (std::int64_t row = 0; row < 2; ++row) {
    EXPECT_NEAR(x.data<float>(row)[0], std::cos(double(kFar + row)), 1e-7);
    EXPECT_NEAR(x.data<float>(row)[1], std::sin(double(kFar + row)), 1e-7);
  }
  rotate(x, 2, positions, 10000, Turn::backward);
  for (const float value : {x.data<float>()[0], x.data<float>()[2]}) EXPECT_NEAR(value, 1, 1e-6);
}

TEST_F(LayersTest, DotProductsOfRotatedVectorsKnowDistancesAlone) {
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    const Matrix x = matrix(2, 4, {0.3F, -1, 2, 0.7F, 1, 0.5F, -0.25F, 2});
    rotate(x, 4, std::vector<std::int64_t>{a, b}, 100, Turn::forward);
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += double{x.data<float>(0)[i]} * x.data<float>(1)[i];
    return sum;
  };
  EXPECT_NEAR(dot(7, 3), dot(1007, 1003), 1e-5);
  EXPECT_GT(std::abs(dot(7, 3) - dot(7, 4)), 0.1);
}

TEST_F(LayersTest, DropoutLeavesTheExpectedValueAndIsTheSameForAnySharding) {
  Tokens tokens;
  for (std::int64_t row = 0; row < 100; ++row) {
    tokens.ids.push_back(0);
    tokens.places.push_back(row % 50);
    tokens.samples.push_back(row / 50);
  }
  const DropoutKey key{0.25, 1, 3, 2};
  const Matrix whole = matrix(100, 200, std::vector<float>(20000, 3));
  drop(whole, tokens, 0, key);
  double sum = 0;
  for (const float value : values(whole)) {
    EXPECT_TRUE(value == 0 || value == 4) << value;
    sum += value;
  }
  EXPECT_NEAR(sum / 20000, 3, 0.05);  // six deviations
  const Matrix part = matrix(30, 200, std::vector<float>(6000, 3));
  drop(part, tokens, 60, key);
  EXPECT_EQ(values(part), values(whole.part(60, 30)));

  for (const DropoutKey other : {DropoutKey{0.25, 2, 3, 2}, {0.25, 1, 4, 2}, {0.25, 1, 3, 1}}) {
    const Matrix again = matrix(30, 200, std::vector<float>(6000, 3));
    drop(again, tokens, 60, other);
    EXPECT_NE(values(again), values(part));
  }
}

TEST_F(LayersTest, CrossEntropyIsFiniteAndIgnoresWhatHasNoLabel) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Matrix logits = matrix(3, 3, {1e4F, -1e4F, 0, kNaN, kNaN, kNaN, 0, 0, 0});
  const std::vector<std::int64_t> labels{1, kIgnoredLabel, 2};
  const LossSum loss = cross_entropy(logits, labels, std::vector<float>{1, 1, 2});
  EXPECT_EQ(loss.count, 2);
  EXPECT_NEAR(loss.sum, 2e4 + 2 * std::log(3.0), 1e-9);
  const std::vector<float> gradient = values(logits);
  const std::vector<double> expected{1, -1, 0, 0, 0, 0, 2. / 3, 2. / 3, -4. / 3};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-6) << i;
}

TEST_F(LayersTest, SwigluIsFiniteForLargeGates) {
  const Matrix gate = matrix(1, 2, {-200, 200}), up = matrix(1, 2, {3, 3});
  const Matrix y = like(*device_, gate), d_gate = like(*device_, gate), d_up = like(*device_, gate);
  swiglu(gate, up, y);
  swiglu_backward(gate, up, up, d_gate, d_up);
  EXPECT_EQ(values(y), (std::vector<float>{0, 600}));
  EXPECT_EQ(values(d_gate), (std::vector<float>{0, 9}));
  EXPECT_EQ(values(d_up), (std::vector<float>{0, 600}));
}

TEST_F(LayersTest, AModelIsNotForHalfPrecision) {
  const Matrix x(*device_, DType::bf16, 1, 2);
  EXPECT_THROW(rms_norm(x, x, 1e-5, x), Error);
}

}  // namespace
}  // namespace ringspan::model
