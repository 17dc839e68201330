// SPDX-License-Identifier: Apache-2.0
// The kernel family 'cudnn' on an emulated cuDNN, which says of a tile what its graph says: that
// all tiles it can express are left to it, and what is made of its results.
#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/local_case.hpp"

namespace ringspan::attention {
namespace cudnn_attention_test {

constexpr DType bf16 = DType::bf16, f16 = DType::f16;

std::vector<LocalCase> cases() {
  return {
      {"one_token", 1, {1, 2, 1, 8, 16, bf16}, "causal"},
      {"causal", 29, {2, 4, 2, 16, 24, bf16}, "causal"},
      {"full", 23, {2, 6, 3, 24, 8, f16}, "full"},
      {"window", 40, {1, 2, 1, 8, 8, f16}, "window:9:4", {}, 2},
      {"striped", 33, {1, 4, 1, 16, 8, bf16}, "causal", {}, 3, LayoutKind::striped},
      {"padding",
       31,
       {2, 2, 1, 8, 16, bf16},
       "documents",
       {},
       2,
       LayoutKind::zigzag,
       {5, 0, 1, 16}},
      {"sinks", 17, {2, 2, 1, 16, 16, f16}, "causal", {}, 1, {}, {}, true},
  };
}

class CudnnAttentionTest : public testing::TestWithParam<LocalCase> {};

INSTANTIATE_TEST_SUITE_P(Cases, CudnnAttentionTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CudnnAttentionTest, MatchesTheOracleInBothPasses) {
  const Problem problem = GetParam().problem();
  const OracleInputs inputs = random_inputs(problem, 1);
  const KeyBlocks blocks = GetParam().key_blocks(problem);
  const LocalResults results = attend("cudnn", problem, inputs, blocks);
  expect_close(results, oracle(problem, inputs), problem);
  std::size_t tiles = 0;
  for (const auto& of_block : blocks.tiles) tiles += of_block.size();
  const int passes = problem.shape.dtype == bf16 ? 2 : 1;  // fp16 forward alone
  EXPECT_EQ(results.library_tiles, passes * static_cast<std::int64_t>(tiles));
}

// The largest fp16 is 65,504. All rows look at the first key alone, whose dv is the sum of d_out.
TEST(CudnnAttentionLeavesTest, GradientsOfATileThatFp16DoesNotHaveToTheKernelsOfOurOwn) {
  const LocalCase c{"fp16", 33, {1, 2, 1, 8, 8, f16}, "full"};
  const Problem problem = c.problem();
  OracleInputs inputs = random_inputs(problem, 3);
  std::fill(inputs.q.values.begin(), inputs.q.values.end(), 8);
  std::fill(inputs.k.values.begin(), inputs.k.values.end(), 0);
  std::fill(inputs.k.row(0, 0, 0), inputs.k.row(0, 0, 0) + 8, 8);
  std::fill(inputs.v.values.begin(), inputs.v.values.end(), 1);
  std::fill(inputs.d_out.values.begin(), inputs.d_out.values.end(), 1000);
  const LocalResults results = attend("cudnn", problem, inputs, c.key_blocks(problem));
  EXPECT_EQ(results.dv.row(0, 0, 0)[7], 66'000);
  EXPECT_EQ(results.library_tiles, 1);
  expect_close(results, oracle(problem, inputs), problem);
}

TEST(CudnnAttentionLeavesTest, WhatItCannotExpressToTheKernelsOfOurOwn) {
  for (const LocalCase& c : {LocalCase{"softcap", 19, {1, 2, 1, 8, 8, bf16}, "causal", 2.0},
                             LocalCase{"not_of_eight", 19, {1, 2, 1, 6, 10, f16}, "causal"}}) {
    SCOPED_TRACE(c.name);
    const Problem problem = c.problem();
    const OracleInputs inputs = random_inputs(problem, 2);
    const LocalResults results = attend("cudnn", problem, inputs, c.key_blocks(problem));
    expect_close(results, oracle(problem, inputs), problem);
    EXPECT_EQ(results.library_tiles, 0);
  }
}

}  // namespace cudnn_attention_test
}  // namespace ringspan::attention
