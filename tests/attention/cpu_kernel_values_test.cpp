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

// The weight is selected to be zero, and so is its gradient: zero times a large value may be NaN.
TEST_P(CpuKernelsTest, AHugeValueDoesNotReachRowsThatDoNotSeeIt) {
  const Problem problem = causal_problem(70);
  const auto kernels = prepared(problem.shape);
  std::vector<Array> out, dq;
  for (const double value : {0.0, 3e38}) {
    OracleInputs inputs = random_inputs(problem, 7);
    *inputs.v.row(0, 41, 0) = value;
    const auto ranks = make_ranks(*device_, problem, inputs);
    run(*kernels, problem, ranks);
    out.push_back(read(ranks[0].out));
    dq.push_back(read(ranks[0].dq));
  }
  for (std::int64_t token = 0; token < 41; ++token) {
    EXPECT_EQ(*out[0].row(0, token, 0), *out[1].row(0, token, 0)) << "token " << token;
    EXPECT_EQ(*dq[0].row(0, token, 0), *dq[1].row(0, token, 0)) << "token " << token;
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
