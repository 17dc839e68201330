// SPDX-License-Identifier: Apache-2.0
// The kernels of attention for GPUs, compiled for the host and run by the block emulator.
#include <cmath>
#include <string>

#include "attention/kernels/cuda/attention_backward.cuh"
#include "attention/kernels/cuda/attention_launch.hpp"
#include "comm/devices/host.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/local_attention.hpp"
#include "tests/emulation/block.hpp"

namespace ringspan::attention::cuda {
namespace {

using Kernel = void (*)(const AttentionArguments&);

void run(Kernel kernel, const Launch& how, const AttentionArguments& arguments) {
  emulation::launch(how.grid, how.threads, how.shared_bytes, [&] { kernel(arguments); });
}

struct Three {
  Kernel forward, backward_queries, backward_keys;
};

template <Half kHalf, int kDim>
constexpr Three kThree = {attention_forward<kHalf, kDim>, attention_backward_queries<kHalf, kDim>,
                          attention_backward_keys<kHalf, kDim>};

Three kernels_of(DType dtype, int dim) {
  if (dtype == DType::bf16) {
    return dim == 64    ? kThree<Half::bf16, 64>
           : dim == 128 ? kThree<Half::bf16, 128>
                        : kThree<Half::bf16, 256>;
  }
  return dim == 64    ? kThree<Half::f16, 64>
         : dim == 128 ? kThree<Half::f16, 128>
                      : kThree<Half::f16, 256>;
}

/// The reference kernels, but for attention itself.
class Computation {
 public:
  Computation(const Problem& problem, const OracleInputs& inputs, std::vector<Shard> shards)
      : problem_(problem),
        inputs_(inputs),
        blocks_(key_blocks(problem, std::move(shards))),
        dim_(kernel_dim(problem.shape)),
        three_(kernels_of(problem.shape.dtype, dim_)) {}

  LocalResults operator()() {
    const Shape& s = problem_.shape;
    const std::int64_t tokens = problem_.sequence.length;
    const DType dtype = s.dtype;
    const Logits logits{problem_.softmax_scale.value_or(1 / std::sqrt(double(s.head_dim))),
                        problem_.softcap};
    const Tensor q = make_tensor(*device_, inputs_.q, dtype);
    const Tensor d_out = make_tensor(*device_, inputs_.d_out, dtype);
    const OwnedPartial partial(*device_, *host_, s, tokens);
    each_block([&](const Tensor& k, const Tensor& v, const std::vector<Tile>& tiles, const auto&) {
      const ForwardBlock block{q, k, v, tiles, logits};
      for (const Tile& tile : tiles) {
        run(three_.forward, forward_launch(dim_, block.q, tile),
            forward_arguments(block, partial.view, tile));
      }
    });
    // out in fp32, so that delta is as good as the gradients are to be
    const Tensor out(*device_, DType::f32, s.batch, tokens, s.heads, s.value_dim);
    const Tensor lse(*device_, DType::f32, s.batch, tokens, s.heads, 1);
    const Tensor delta(*device_, DType::f32, s.batch, tokens, s.heads, 1);
    host_->finalize(partial.view, nullptr, out, lse);
    host_->delta(out, d_out, lse, nullptr, delta, nullptr);

    const Tensor dq = zeros(s.batch, tokens, s.heads, s.head_dim);
    LocalResults results;
    results.dk = Array(s.batch, tokens, s.kv_heads, s.head_dim);
    results.dv = Array(s.batch, tokens, s.kv_heads, s.value_dim);
    each_block([&](const Tensor& k, const Tensor& v, const std::vector<Tile>& tiles,
                   const std::vector<std::int64_t>& where) {
      const BackwardBlock block{q, k, v, tiles, logits, lse, delta, d_out};
      const auto count = static_cast<std::int64_t>(where.size());
      const Tensor dk = zeros(s.batch, count, s.kv_heads, s.head_dim);
      const Tensor dv = zeros(s.batch, count, s.kv_heads, s.value_dim);
      for (const Tile& tile : tiles) {
        const AttentionArguments arguments = backward_arguments(block, dq, dk, dv, tile);
        run(three_.backward_queries, backward_queries_launch(dim_, block.q, tile), arguments);
        run(three_.backward_keys, backward_keys_launch(dim_, block.k, tile), arguments);
      }
      put_tokens(read(dk), where, results.dk);
      put_tokens(read(dv), where, results.dv);
    });
    results.out = read(out), results.lse = read(lse), results.dq = read(dq);
    return results;
  }

 private:
  template <typename Visitor>
  void each_block(const Visitor& visitor) {
    for (std::size_t n = 0; n < blocks_.shards.size(); ++n) {
      const auto where = positions(blocks_.shards[n]);
      const DType dtype = problem_.shape.dtype;
      visitor(make_tensor(*device_, take_tokens(inputs_.k, where), dtype),
              make_tensor(*device_, take_tokens(inputs_.v, where), dtype), blocks_.tiles[n], where);
    }
  }

  Tensor zeros(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
    return make_tensor(*device_, Array(batch, tokens, heads, dim), DType::f32);
  }

  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
  std::unique_ptr<Kernels> host_ = make_kernels("reference", *device_);
  const Problem& problem_;
  const OracleInputs& inputs_;
  const KeyBlocks blocks_;
  const int dim_;
  const Three three_;
};

/// Weights and their gradients are rounded to 16 bits before they are multiplied: in the words of
/// the oracle eps is that of the element type, and all else is small beside it. 2 for two roundings
/// of the factors of a product.
void expect_close(const LocalResults& actual, const OracleResults& expected, DType dtype) {
  const Bound bound{2 * half_ulp(dtype) / 0x1p-23};
  EXPECT_TRUE(close("out", actual.out, expected.out, expected.out_unit, bound));
  EXPECT_TRUE(close("lse", actual.lse, expected.lse, expected.lse_unit));
  EXPECT_TRUE(close("dq", actual.dq, expected.dq, expected.dq_unit, bound));
  EXPECT_TRUE(close("dk", actual.dk, expected.dk, expected.dk_unit, bound));
  EXPECT_TRUE(close("dv", actual.dv, expected.dv, expected.dv_unit, bound));
}

struct Case {
  std::string name;
  std::int64_t length;
  Shape shape;
  std::string mask;
  std::optional<double> softcap = {};
  int ranks = 1;  // shards of keys, visiting one after the other
  LayoutKind layout = LayoutKind::contiguous;
  std::vector<std::int64_t> documents = {};
};

std::vector<Case> cases() {
  constexpr DType bf16 = DType::bf16, f16 = DType::f16;
  return {
      {"one_token", 1, {1, 2, 1, 6, 6, bf16}, "causal"},
      {"narrow", 37, {2, 4, 2, 6, 10, f16}, "causal"},
      {"two_blocks", 130, {1, 1, 1, 64, 64, bf16}, "causal"},
      {"full_fp16", 70, {2, 1, 1, 64, 72, f16}, "full"},
      {"head_dim_72", 67, {1, 2, 1, 72, 72, bf16}, "window:20:3"},
      {"head_dim_128", 66, {1, 2, 2, 128, 64, f16}, "causal", 2.0},
      {"value_dim_128", 45, {1, 3, 1, 33, 128, bf16}, "full", 3.0},
      {"head_dim_256", 66, {1, 1, 1, 256, 160, bf16}, "causal"},
      {"striped", 91, {1, 4, 1, 16, 24, bf16}, "causal", {}, 3, LayoutKind::striped},
      {"documents",
       120,
       {1, 2, 1, 24, 16, f16},
       "documents+causal+window:40",
       {},
       2,
       LayoutKind::zigzag,
       {1, 1, 50, 0, 7, 1, 30, 20}},
  };
}

Problem problem_of(const Case& c) {
  return {.shape = c.shape,
          .sequence = {c.length, c.documents},
          .mask = parse_mask(c.mask),
          .softcap = c.softcap};
}

class CudaAttentionTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Cases, CudaAttentionTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CudaAttentionTest, MatchesTheOracle) {
  const Problem problem = problem_of(GetParam());
  const OracleInputs inputs = random_inputs(problem, 1);
  Computation computation(problem, inputs,
                          shards(GetParam().layout, problem.sequence, GetParam().ranks));
  expect_close(computation(), oracle(problem, inputs), problem.shape.dtype);
}

TEST(CudaAttentionRepeatTest, GivesTheSameBitsEveryTime) {
  const Problem problem = problem_of({"", 70, {1, 2, 1, 20, 24, DType::bf16}, "causal"});
  const OracleInputs inputs = random_inputs(problem, 2);
  const auto once = [&] {
    return Computation(problem, inputs, shards(LayoutKind::zigzag, problem.sequence, 2))();
  };
  const LocalResults first = once(), second = once();
  expect_same(first, second);
}

TEST(CudaAttentionShapeTest, RefusesWhatItCannotMultiply) {
  EXPECT_THAT(
      [] { kernel_dim({.dtype = DType::f32}); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("attention of fp32; they multiply")));
  EXPECT_THAT([] { kernel_dim({.head_dim = 257, .dtype = DType::bf16}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("at most 256 are possible")));
}

}  // namespace
}  // namespace ringspan::attention::cuda
