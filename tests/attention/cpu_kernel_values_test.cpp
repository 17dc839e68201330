// SPDX-License-Identifier: Apache-2.0
// The cpu kernels at the limits of fp32: huge logits and values, infinities, NaN.
#include <bit>
#include <cmath>
#include <vector>

#include "tests/attention/array.hpp"
#include "tests/attention/cpu_kernel_run.hpp"

namespace ringspan::attention {
namespace {

Problem causal_problem(std::int64_t length, const Shape& shape = {}) {
  return {.shape = shape, .sequence = {length}, .mask = {.right = 0}, .softmax_scale = 0.3};
}

// Logits of tens of thousands, so that all but one weight of a row underflow.
TEST_P(CpuKernelsTest, HugeLogitsStayFiniteAndRight) {
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
TEST_P(CpuKernelsTest, HugeAndNonFiniteValuesReachOnlyWhatSeesThem) {
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
TEST_P(CpuKernelsTest, NotANumberIsNotHidden) {
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

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuKernelsTest, instruction_sets(), instruction_set_name);

}  // namespace
}  // namespace ringspan::attention
