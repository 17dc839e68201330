// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/attention/local_attention.hpp"

namespace ringspan::attention {
namespace {

/// Inputs stored as slices of larger tensors, heads before tokens, or with every head in the place
/// of one.
Stored store_sliced(comm::Device& device, const Array& a, DType dtype) {
  Tensor large(device, dtype, a.batch, a.tokens + 5, a.heads + 2, a.dim);
  const TensorView view = large.view().slice_tokens(3, a.tokens).slice_heads(1, a.heads);
  write(a, view);
  return {large.buffer(), view};
}

Stored store_heads_first(comm::Device& device, const Array& a, DType dtype) {
  const comm::Buffer memory =
      device.allocate(a.batch * a.tokens * a.heads * (a.dim + 1) * element_bytes(dtype));
  TensorView view{memory.data(), dtype, a.batch, a.tokens, a.heads, a.dim};
  view.token_stride = a.dim + 1;
  view.head_stride = a.tokens * view.token_stride;
  view.batch_stride = a.heads * view.head_stride;
  write(a, view);
  return {memory, view};
}

Stored store_repeating(comm::Device& device, const Array& a, DType dtype) {
  Tensor memory(device, dtype, 1, a.tokens, 1, a.dim);
  TensorView view = memory;
  view.batch = a.batch;
  view.heads = a.heads;
  view.batch_stride = view.head_stride = 0;
  write(a, view);
  return {memory.buffer(), view};
}

/// Every family that computes.
class StridesTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Families, StridesTest, testing::ValuesIn(computing_families()),
                         [](const auto& info) { return info.param; });

TEST_P(StridesTest, DoNotChangeAnyBit) {
  const auto attend_in = [](const auto&... arguments) { return attend(GetParam(), arguments...); };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Problem problem;
    problem.shape = {.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 6, .value_dim = 10};
    problem.sequence = {.length = 29, .documents = {5, 0, 1, 16, 3}};
    problem.mask = {.right = 0, .documents = true};
    problem.shape.dtype = dtype;
    OracleInputs inputs = random_inputs(problem, 14);
    const KeyBlocks blocks = one_key_block(problem);
    const LocalResults packed = attend_in(problem, inputs, blocks);
    expect_same(attend_in(problem, inputs, blocks, store_sliced), packed);
    expect_same(attend_in(problem, inputs, blocks, store_heads_first), packed);

    // Batch entries and heads that are all the same can share their memory.
    for (Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
      for (std::int64_t b = 0; b < array->batch; ++b) {
        for (std::int64_t t = 0; t < array->tokens; ++t) {
          for (std::int64_t h = 0; h < array->heads; ++h) {
            std::copy_n(array->row(0, t, 0), array->dim, array->row(b, t, h));
          }
        }
      }
    }
    expect_same(attend_in(problem, inputs, blocks, store_repeating),
                attend_in(problem, inputs, blocks));
  }
}

}  // namespace
}  // namespace ringspan::attention
