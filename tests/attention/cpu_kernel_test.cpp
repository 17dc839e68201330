// SPDX-License-Identifier: Apache-2.0
// What is particular to the cpu kernels: every instruction set that this machine has, the blocks
// and panels that shapes are cut into. Extreme values are in cpu_kernel_values_test.cpp.
#include <cmath>
#include <string>
#include <vector>

#include "attention/kernels/cpu_panel.hpp"
#include "comm/error.hpp"
#include "tests/attention/array.hpp"
#include "tests/attention/cpu_kernel_run.hpp"

namespace ringspan::attention {
namespace cpu_kernel_test {

struct Case {
  std::string name;
  std::int64_t length;
  Shape shape;
  Mask mask = {};
  std::optional<double> softcap = {};
  LayoutKind layout = LayoutKind::contiguous;
  int ranks = 1;
  std::vector<std::int64_t> documents = {};
};

Problem problem_of(const Case& c) {
  return {.shape = c.shape,
          .sequence = {c.length, c.documents},
          .mask = c.mask,
          .softmax_scale = 0.3,
          .softcap = c.softcap};
}

std::vector<Case> cases() {
  const Mask causal{.right = 0}, window{.left = 20, .right = 3}, documents{.documents = true};
  return {
      {"one_token", 1, {.heads = 2, .kv_heads = 2, .head_dim = 6, .value_dim = 6}, causal},
      {"few_tokens", 7, {.batch = 2, .heads = 2, .head_dim = 5, .value_dim = 9}, causal},
      {"full", 61, {.heads = 3, .kv_heads = 3, .head_dim = 72, .value_dim = 64}},
      {"two_key_blocks", 260, {.heads = 2, .head_dim = 24, .value_dim = 32}, causal},
      {"wide_heads", 50, {.head_dim = 256, .value_dim = 31}, causal},
      {"window", 300, {.heads = 2, .kv_heads = 2, .head_dim = 33, .value_dim = 40}, window},
      {"capped", 70, {.heads = 2, .head_dim = 16, .value_dim = 16}, causal, 2.0},
      {"bf16", 90, {.heads = 4, .kv_heads = 2, .dtype = DType::bf16}, causal},
      {"fp16",
       90,
       {.heads = 4, .kv_heads = 2, .head_dim = 20, .value_dim = 24, .dtype = DType::f16}},
      {"striped",
       101,
       {.heads = 2, .head_dim = 24, .value_dim = 24},
       causal,
       {},
       LayoutKind::striped,
       3},
      {"documents",
       120,
       {.batch = 2, .heads = 2, .head_dim = 16, .value_dim = 16},
       documents,
       {},
       LayoutKind::zigzag,
       2,
       {1, 1, 50, 0, 7, 1, 30, 20}},
      {"capped_window_on_stripes",
       130,
       {.heads = 2, .kv_heads = 2, .head_dim = 8, .value_dim = 8},
       window,
       5.0,
       LayoutKind::striped,
       2},
  };
}

TEST(CpuKernelsAgainstOracleTest, MatchWithEveryInstructionSet) {
  const auto device = comm::make_host_device(true);
  for (const Case& c : cases()) {
    const Problem problem = problem_of(c);
    const OracleInputs inputs = random_inputs(problem, 1);
    const OracleResults expected = oracle(problem, inputs);  // which takes most of the time
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(c.name + " on " + hwy::TargetName(target));
      const ChosenTarget chosen(target);
      const auto ranks = make_ranks(*device, problem, inputs, c.layout, c.ranks);
      run(*prepared_cpu_kernels(*device, c.shape), problem, ranks);
      expect_close(ranks, expected);
    }
  }
}

TEST_P(CpuKernelsTest, ChoosesTheInstructionSet) {
  const std::int64_t bytes = 4 * cpu::instruction_set().lanes;
#if HWY_ARCH_X86
  const std::int64_t expected = GetParam() <= HWY_AVX3 ? 64 : GetParam() == HWY_AVX2 ? 32 : 16;
  EXPECT_EQ(bytes, GetParam() == HWY_SCALAR ? 4 : expected);
#else
  EXPECT_GE(bytes, 4);
#endif
}

// Sums run in key order from the carried one, in the row sum as in the output.
TEST_P(CpuKernelsTest, ValuesOfOneGiveExactlyOne) {
  const Problem problem = problem_of({"", 300, {.value_dim = 9}, {.right = 0}});
  OracleInputs inputs = random_inputs(problem, 2);
  for (double& value : inputs.v.values) value = 1;
  const auto ranks = make_ranks(*device_, problem, inputs);
  run(*prepared(problem.shape), problem, ranks);
  for (const double value : read(ranks[0].out).values) EXPECT_EQ(value, 1.0);
}

TEST_P(CpuKernelsTest, GivesTheSameBitsEveryTime) {
  const Problem problem =
      problem_of({"", 110, {.heads = 4, .kv_heads = 2, .head_dim = 20}, {.right = 0}});
  const OracleInputs inputs = random_inputs(problem, 3);
  const auto first = make_ranks(*device_, problem, inputs, LayoutKind::zigzag, 2);
  const auto second = make_ranks(*device_, problem, inputs, LayoutKind::zigzag, 2);
  const auto kernels = prepared(problem.shape);
  run(*kernels, problem, first);
  run(*kernels, problem, second);
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(same_bits("out", read(first[r].out), read(second[r].out)));
    EXPECT_TRUE(same_bits("dq", read(first[r].dq), read(second[r].dq)));
    EXPECT_TRUE(same_bits("dk", read(first[r].dk), read(second[r].dk)));
    EXPECT_TRUE(same_bits("dv", read(first[r].dv), read(second[r].dv)));
  }
}

TEST_P(CpuKernelsTest, LeavesRowsOutsideItsTilesAlone) {
  const Problem problem = problem_of({"", 40, {.heads = 2}});
  const auto ranks = make_ranks(*device_, problem, random_inputs(problem, 5));
  const CpuRank& rank = ranks[0];
  const auto kernels = prepared(problem.shape);
  for (const Tensor* tensor : {&rank.partial_out, &rank.max, &rank.sum, &rank.dq, &rank.dk}) {
    kernels->fill(*tensor, -0.0);  // which any arithmetic would turn into +0
  }
  const Tile tiles[] = {{{3, 2, 10}, {1, 3, 9}, -9, 8}, {{30, 1, 1}, {39, 1, 1}, 0, 0}};
  kernels->forward({rank.q, rank.k, rank.v, tiles, {}}, rank.partial());
  kernels->backward({rank.q, rank.k, rank.v, tiles, {}, rank.lse, rank.delta, rank.d_out}, rank.dq,
                    rank.dk, rank.dv);
  const auto untouched = [](const Tensor& tensor, std::int64_t token) {
    const auto* value = static_cast<const float*>(tensor.view().data);
    return std::signbit(value[tensor.view().offset(0, token, 0)]) &&
           value[tensor.view().offset(0, token, 0)] == 0;
  };
  for (std::int64_t token = 0; token < 40; ++token) {
    const bool query = token == 30 || (token >= 3 && token <= 21 && token % 2 == 1);
    const bool key = token == 39 || (token <= 25 && token % 3 == 1);
    for (const Tensor* tensor : {&rank.sum, &rank.partial_out, &rank.dq}) {
      EXPECT_EQ(untouched(*tensor, token), !query) << "token " << token;
    }
    EXPECT_TRUE(query || untouched(rank.max, token)) << "token " << token;
    EXPECT_EQ(untouched(rank.dk, token), !key) << "token " << token;
  }
}

TEST_P(CpuKernelsTest, RefusesWhatItWasNotPreparedFor) {
  const auto kernels = prepared({.head_dim = 8, .value_dim = 8});
  const Tensor wide = make_tensor(*device_, Array(1, 1, 1, 128), DType::f32);
  EXPECT_THROW(kernels->forward({wide, wide, wide, {}, {}}, {}), Error);
  EXPECT_THROW(kernels->prepare({.dtype = DType::f64}), Error);
}

TEST_P(CpuKernelsTest, PollsTheDeviceBetweenPanels) {
  const Problem problem = problem_of({"", 500, {.head_dim = 32, .value_dim = 32}});
  const auto ranks = make_ranks(*device_, problem, random_inputs(problem, 9));
  int polls = 0;
  device_->on_poll([&] { ++polls; });
  forward(*prepared(problem.shape), problem, ranks[0], ranks[0]);
  device_->on_poll(nullptr);
  EXPECT_GT(polls, 5);  // the device throttles them
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuKernelsTest, instruction_sets(), instruction_set_name);

}  // namespace cpu_kernel_test
}  // namespace ringspan::attention
