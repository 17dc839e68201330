// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/oracle.hpp"

#include <cmath>
#include <functional>

#include "gtest/gtest.h"

namespace ringspan::attention {
namespace {

Problem tiny_problem() {
  Problem problem;
  problem.shape = {
      .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 3, .value_dim = 5, .dtype = DType::f64};
  problem.sequence = {.length = 7, .documents = {4, 2}};
  problem.mask = {.left = 2, .right = 1, .documents = true};
  problem.softmax_scale = 0.7;
  return problem;
}

/// sum of d_out * out, whose gradients the backward pass claims to give.
double loss(const Problem& problem, const OracleInputs& inputs) {
  const OracleResults results = oracle(problem, inputs);
  double total = 0;
  for (std::size_t i = 0; i < results.out.values.size(); ++i) {
    total += inputs.d_out.values[i] * results.out.values[i];
  }
  return total;
}

/// Central differences of the loss, over every element of one input, against `gradient`.
void expect_gradient(const Problem& problem, const OracleInputs& inputs,
                     const std::function<std::vector<double>&(OracleInputs&)>& input,
                     const std::vector<double>& gradient) {
  const double step = 1e-5;
  OracleInputs moved = inputs;
  ASSERT_EQ(input(moved).size(), gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double value = input(moved)[i];
    input(moved)[i] = value + step;
    const double above = loss(problem, moved);
    input(moved)[i] = value - step;
    const double below = loss(problem, moved);
    input(moved)[i] = value;
    EXPECT_NEAR((above - below) / (2 * step), gradient[i], 1e-8) << "element " << i;
  }
}

void expect_gradients(const Problem& problem) {
  const OracleInputs inputs = random_inputs(problem, 1);
  const OracleResults results = oracle(problem, inputs);
  expect_gradient(
      problem, inputs, [](auto& in) -> auto& { return in.q.values; }, results.dq.values);
  expect_gradient(
      problem, inputs, [](auto& in) -> auto& { return in.k.values; }, results.dk.values);
  expect_gradient(
      problem, inputs, [](auto& in) -> auto& { return in.v.values; }, results.dv.values);
  expect_gradient(
      problem, inputs, [](auto& in) -> auto& { return in.sinks; }, results.d_sinks.values);
}

TEST(OracleTest, GradientsAreDerivatives) { expect_gradients(tiny_problem()); }

TEST(OracleTest, GradientsAreDerivativesWithSoftcapAndSinks) {
  Problem problem = tiny_problem();
  problem.softcap = 1.5;
  problem.sinks = true;
  expect_gradients(problem);
}

TEST(OracleTest, ZeroQueriesGiveTheMeanOfTheVisibleValues) {
  const Problem problem = tiny_problem();
  OracleInputs inputs = random_inputs(problem, 2);
  inputs.q = Array(2, 7, 4, 3);
  const OracleResults results = oracle(problem, inputs);
  // By hand: documents 0-3, 4-5, padding 6; two back, one ahead.
  const std::vector<std::vector<std::int64_t>> seen = {
      {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3}, {4, 5}, {4, 5}, {}};
  for (std::int64_t i = 0; i < 7; ++i) {
    for (std::int64_t h = 0; h < 4; ++h) {
      double mean = 0;
      for (const std::int64_t j : seen[i]) mean += inputs.v.row(1, j, h / 2)[4] / seen[i].size();
      EXPECT_NEAR(results.out.row(1, i, h)[4], mean, 1e-15);
      EXPECT_NEAR(std::exp(*results.lse.row(1, i, h)), seen[i].size(), 1e-14);
    }
  }
}

TEST(OracleTest, MaskIsReadLiterally) {
  Problem problem = tiny_problem();
  for (std::int64_t i = 0; i < 7; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      const bool same_document = (i < 4 && j < 4) || (i >= 4 && j >= 4 && i < 6 && j < 6);
      EXPECT_EQ(sees(problem, i, j), same_document && i - j <= 2 && j - i <= 1) << i << ' ' << j;
    }
  }
  problem.mask = {};
  EXPECT_TRUE(sees(problem, 0, 5));
  EXPECT_FALSE(sees(problem, 0, 6));
  EXPECT_FALSE(sees(problem, 6, 6));
}

TEST(OracleTest, RowsThatSeeNothingAreZero) {
  const Problem problem = tiny_problem();
  const OracleResults results = oracle(problem, random_inputs(problem, 3));
  for (std::int64_t h = 0; h < 4; ++h) {
    EXPECT_EQ(*results.lse.row(0, 6, h), -HUGE_VAL);
    for (std::int64_t d = 0; d < 5; ++d) EXPECT_EQ(results.out.row(0, 6, h)[d], 0);
    for (std::int64_t d = 0; d < 3; ++d) EXPECT_EQ(results.dq.row(0, 6, h)[d], 0);
  }
}

TEST(OracleTest, HugeLogitsStayFinite) {
  Problem problem = tiny_problem();
  problem.softmax_scale = 6e4;
  const OracleResults results = oracle(problem, random_inputs(problem, 4));
  for (const double out : results.out.values) EXPECT_TRUE(std::isfinite(out));
  for (const double dq : results.dq.values) EXPECT_TRUE(std::isfinite(dq));
}

TEST(CloseTest, FindsTheWorstElementAndRefusesNan) {
  const Array expected(1, 2, 2, 2, 1.0), unit(1, 2, 2, 2, 1.0);
  Array actual = expected;
  EXPECT_TRUE(close("out", actual, expected, unit));
  actual.row(0, 0, 1)[1] += 17 * 0x1p-23;
  actual.row(0, 1, 0)[1] -= 40 * 0x1p-23;
  const testing::AssertionResult apart = close("out", actual, expected, unit);
  EXPECT_FALSE(apart);
  EXPECT_NE(std::string(apart.message()).find("2 of 8"), std::string::npos);
  EXPECT_NE(std::string(apart.message()).find("[0][1][0][1]"), std::string::npos);
  EXPECT_TRUE(close("out", actual, expected, unit, {.factor = 40}));
  actual.row(0, 0, 0)[0] = NAN;
  EXPECT_FALSE(close("out", actual, expected, unit, {.factor = 40}));
  EXPECT_FALSE(close("out", Array(1, 2, 2, 1), expected, unit));
}

TEST(CloseTest, InfinitiesHaveToBeEqual) {
  const Array unit(1, 1, 1, 1, 1.0), none(1, 1, 1, 1, -INFINITY);
  EXPECT_TRUE(close("lse", none, none, unit));
  for (const double other : {0.0, -1e300, double{INFINITY}, double{NAN}}) {
    EXPECT_FALSE(close("lse", Array(1, 1, 1, 1, other), none, unit)) << other;
    EXPECT_FALSE(close("lse", none, Array(1, 1, 1, 1, other), unit)) << other;
  }
}

}  // namespace
}  // namespace ringspan::attention
