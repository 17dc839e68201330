// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/cpu_kernel_run.hpp"

#include <limits>

#include "tests/attention/array.hpp"

namespace ringspan::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Logits logits_of(const Problem& problem) { return {*problem.softmax_scale, problem.softcap}; }

void backward(Kernels& kernels, const Problem& problem, const CpuRank& rank, const CpuRank& keys) {
  const auto tiles = visible_tiles(rank.shard, keys.shard, problem.sequence, problem.mask);
  kernels.backward(
      {rank.q, keys.k, keys.v, tiles, logits_of(problem), rank.lse, rank.delta, rank.d_out},
      rank.dq, keys.dk, keys.dv);
}

}  // namespace

CpuRank::CpuRank(comm::Device& device, const Problem& problem, const Shard& shard,
                 const OracleInputs& whole)
    : shard(shard), tokens(positions(shard)) {
  const Shape& s = problem.shape;
  const auto input = [&](const Array& array) {
    return make_tensor(device, array, tokens, s.dtype);
  };
  q = input(whole.q), k = input(whole.k), v = input(whole.v), d_out = input(whole.d_out);
  const auto result = [&](std::int64_t heads, std::int64_t dim, double value = 0) {
    return make_tensor(device, Array(s.batch, std::ssize(tokens), heads, dim, value), DType::f32);
  };
  partial_out = result(s.heads, s.value_dim);
  max = result(s.heads, 1, -kInfinity);
  sum = result(s.heads, 1);
  lse = result(s.heads, 1), delta = result(s.heads, 1), dq = result(s.heads, s.head_dim);
  dk = result(s.kv_heads, s.head_dim), dv = result(s.kv_heads, s.value_dim);
  out = result(s.heads, s.value_dim);  // in fp32, so that delta is as good as the gradients
}

std::vector<CpuRank> make_ranks(comm::Device& device, const Problem& problem,
                                const OracleInputs& in, LayoutKind layout, int ranks) {
  std::vector<CpuRank> made;
  for (int r = 0; r < ranks; ++r) {
    made.emplace_back(device, problem, shard(layout, problem.sequence, ranks, r), in);
  }
  return made;
}

void forward(Kernels& kernels, const Problem& problem, const CpuRank& rank, const CpuRank& keys) {
  const auto tiles = visible_tiles(rank.shard, keys.shard, problem.sequence, problem.mask);
  kernels.forward({rank.q, keys.k, keys.v, tiles, logits_of(problem)}, rank.partial());
}

void run(Kernels& kernels, const Problem& problem, const std::vector<CpuRank>& ranks) {
  for (const CpuRank& rank : ranks) {
    for (const CpuRank& keys : ranks) forward(kernels, problem, rank, keys);
    kernels.finalize(rank.partial(), nullptr, rank.out, rank.lse);
    kernels.delta(rank.out, rank.d_out, rank.lse, nullptr, rank.delta, nullptr);
    for (const CpuRank& keys : ranks) backward(kernels, problem, rank, keys);
  }
}

void expect_close(const std::vector<CpuRank>& ranks, const OracleResults& expected) {
  for (const CpuRank& rank : ranks) {
    const auto matches = [&](const char* what, const Tensor& actual, const Array& values,
                             const Array& unit, const Bound& bound = {}) {
      EXPECT_TRUE(close_tokens(what, actual, rank.tokens, values, unit, bound));
    };
    matches("out", rank.out, expected.out, expected.out_unit);
    matches("lse", rank.lse, expected.lse, expected.lse_unit);
    matches("dq", rank.dq, expected.dq, expected.dq_unit, {kGradientFactor});
    matches("dk", rank.dk, expected.dk, expected.dk_unit, {kGradientFactor});
    matches("dv", rank.dv, expected.dv, expected.dv_unit);
  }
}

std::unique_ptr<Kernels> prepared_cpu_kernels(comm::Device& device, const Shape& shape) {
  auto kernels = make_kernels("cpu", device);
  kernels->prepare(shape);
  return kernels;
}

}  // namespace ringspan::attention
