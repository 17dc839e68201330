// SPDX-License-Identifier: Apache-2.0
// The cpu kernels at the limits of fp32: huge logits and values, infinities, NaN.
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/attention/array.hpp"
#include "tests/attention/cpu_kernel_run.hpp"

namespace ringspan::attention {
namespace {

class CpuKernelValuesTest : public CpuKernelsTest {};

Problem causal_problem(std::int64_t length, const Shape& shape = {}) {
  return {.shape = shape, .sequence = {length}, .mask = {.right = 0}, .softmax_scale = 0.3};
}

// Logits of tens of thousands, so that all but one weight of a row underflow.
TEST_P(CpuKernelValuesTest, HugeLogitsStayFiniteAndRight) {
  Problem problem = causal_problem(120, {.heads = 2});
  problem.softmax_scale = 3000;
  const OracleInputs inputs = random_inputs(problem, 4);
  const OracleResults expected = oracle(problem, inputs);
  const auto ranks = make_ranks(*device_, problem, inputs);
  run(*prepared(problem.shape), problem, ranks);
  expect_close(ranks, expected);
}

void expect_nan_survives(comm::Device& device, const Problem& problem, const OracleInputs& inputs,
                         std::int64_t token) {
  const auto ranks = make_ranks(device, problem, inputs);
  const auto kernels = prepared_cpu_kernels(device, problem.shape);
  run(*kernels, problem, ranks);
  EXPECT_TRUE(std::isnan(*read(ranks[0].out).row(0, token, 0)));
  EXPECT_TRUE(std::isnan(*read(ranks[0].dq).row(0, token, 0)));
  // Merged into what has seen nothing yet, it stays.
  const auto fresh = make_ranks(device, problem, inputs);
  kernels->merge(fresh[0].partial(), ranks[0].partial());
  kernels->finalize(fresh[0].partial(), nullptr, fresh[0].out, fresh[0].lse);
  EXPECT_TRUE(std::isnan(*read(fresh[0].out).row(0, token, 0)));
}

// A value that only one key has, whose weight is 2^-n: right down to where fp32 has no more normal
// numbers, and lost like any underflow below.
TEST_P(CpuKernelValuesTest, WeightsCountDownToTheSmallestNormalNumber) {
  constexpr double kSmallest = 0x1p-126, kValue = 3, kGradient = 5;
  Problem problem{.shape = {.head_dim = 1, .value_dim = 2}, .sequence = {2}};
  problem.softmax_scale = 1;
  OracleInputs inputs{Array(1, 2, 1, 1, 1.0),
                      Array(1, 2, 1, 1),
                      Array(1, 2, 1, 2),
                      Array(1, 2, 1, 2, kGradient),
                      {}};
  inputs.v.values = {1, 0, 0, kValue};
  const auto kernels = prepared(problem.shape);
  for (int n = 0; n < 160; ++n) {
    *inputs.k.row(0, 1, 0) = static_cast<float>(-n * std::numbers::ln2);
    const auto ranks = make_ranks(*device_, problem, inputs);
    run(*kernels, problem, ranks);
    const double weight = 1 / (1 + std::exp(-*inputs.k.row(0, 1, 0)));
    const double bound = 16 * 0x1p-23 * (1 + n * std::numbers::ln2) * weight + kSmallest;
    EXPECT_NEAR(read(ranks[0].out).row(0, 1, 0)[1], weight * kValue, bound * kValue) << n;
    EXPECT_NEAR(read(ranks[0].dv).row(0, 1, 0)[0], weight * 2 * kGradient, bound * 2 * kGradient)
        << n;
  }
}

TEST_P(CpuKernelValuesTest, LeavesSubnormalNumbersToTheCaller) {
  const Problem problem = causal_problem(3);
  const auto ranks = make_ranks(*device_, problem, random_inputs(problem, 10));
  run(*prepared(problem.shape), problem, ranks);
  volatile float subnormal = 0x1p-130f;
  EXPECT_EQ(subnormal * 0.5f, 0x1p-131f);
}

/// Rows of every token outside of first .. last have the same bits in both.
void expect_same_outside(const char* what, const Tensor& a, const Tensor& b, std::int64_t first,
                         std::int64_t last) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < a.view().tokens; ++t) {
    if (t < first || t > last) tokens.push_back(t);
  }
  EXPECT_TRUE(same_bits(what, take_tokens(read(a), tokens), take_tokens(read(b), tokens)));
}

// In a window, panels have keys that only their first or only their last lanes see.
TEST_P(CpuKernelValuesTest, HugeAndNonFiniteValuesReachOnlyWhatSeesThem) {
  constexpr std::int64_t kToken = 61, kLeft = 20, kRight = 3;
  const Problem problem{.shape = {.heads = 2, .head_dim = 7, .value_dim = 9},
                        .sequence = {130},
                        .mask = {.left = kLeft, .right = kRight},
                        .softmax_scale = 0.3};
  const auto k = &OracleInputs::k, v = &OracleInputs::v;
  const auto kernels = prepared(problem.shape);
  const OracleInputs inputs = random_inputs(problem, 7);
  const auto clean = make_ranks(*device_, problem, inputs);
  run(*kernels, problem, clean);
  for (const auto input : {&OracleInputs::q, k, v, &OracleInputs::d_out}) {
    for (const double value : {3e38, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      OracleInputs changed = inputs;
      (changed.*input).row(0, kToken, 0)[5] = value;
      const auto ranks = make_ranks(*device_, problem, changed);
      run(*kernels, problem, ranks);
      const bool of_key = input == k || input == v;
      const std::int64_t first = kToken - (of_key ? kRight : 0);  // queries that it reaches
      const std::int64_t last = kToken + (of_key ? kLeft : 0);
      expect_same_outside("out", ranks[0].out, clean[0].out, first, last);
      expect_same_outside("lse", ranks[0].lse, clean[0].lse, first, last);
      expect_same_outside("dq", ranks[0].dq, clean[0].dq, first, last);
      expect_same_outside("dk", ranks[0].dk, clean[0].dk, first - kLeft, last + kRight);
      expect_same_outside("dv", ranks[0].dv, clean[0].dv, first - kLeft, last + kRight);
    }
  }
}

// Every bit of the NaN is set, as in poisoned memory: the exponential handles bits.
TEST_P(CpuKernelValuesTest, NotANumberIsNotHidden) {
  Problem problem = causal_problem(90);
  for (const std::optional<double> softcap : {std::optional<double>(), std::optional(5.0)}) {
    problem.softcap = softcap;
    for (Array OracleInputs::*poisoned : {&OracleInputs::q, &OracleInputs::k, &OracleInputs::v}) {
      for (const std::int64_t token : {0, 89}) {
        OracleInputs inputs = random_inputs(problem, 6);
        *(inputs.*poisoned).row(0, token, 0) = std::bit_cast<double>(~std::uint64_t{0});
        expect_nan_survives(*device_, problem, inputs, token);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuKernelValuesTest, instruction_sets(),
                         instruction_set_name);

}  // namespace
}  // namespace ringspan::attention
