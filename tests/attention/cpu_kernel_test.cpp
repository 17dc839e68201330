// SPDX-License-Identifier: Apache-2.0
// What is particular to the cpu kernels: every instruction set that this machine has, the blocks
// and panels that shapes are cut into, the fp32 exponential at its limits.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/kernels.hpp"
#include "attention/kernels/cpu_panel.hpp"
#include "comm/devices/host.hpp"
#include "comm/error.hpp"
#include "hwy/targets.h"
#include "tests/attention/array.hpp"
#include "tests/attention/oracle.hpp"

namespace ringspan::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

/// One rank's tensors, results as a schedule would prepare them.
struct Rank {
  Rank(comm::Device& device, const Problem& problem, const Shard& shard, const OracleInputs& whole)
      : shard(shard), tokens(positions(shard)) {
    const Shape& s = problem.shape;
    const auto input = [&](const Array& array) {
      return make_tensor(device, take_tokens(array, tokens), s.dtype);
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

  Partial partial() const { return {partial_out, max, sum}; }

  Shard shard;
  std::vector<std::int64_t> tokens;
  Tensor q, k, v, d_out;
  Tensor partial_out, max, sum;
  Tensor out, lse, delta, dq, dk, dv;
};

Logits logits_of(const Problem& problem) { return {*problem.softmax_scale, problem.softcap}; }

void forward(Kernels& kernels, const Problem& problem, const Rank& rank, const Rank& keys) {
  const auto tiles = visible_tiles(rank.shard, keys.shard, problem.sequence, problem.mask);
  kernels.forward({rank.q, keys.k, keys.v, tiles, logits_of(problem)}, rank.partial());
}

void backward(Kernels& kernels, const Problem& problem, const Rank& rank, const Rank& keys) {
  const auto tiles = visible_tiles(rank.shard, keys.shard, problem.sequence, problem.mask);
  kernels.backward(
      {rank.q, keys.k, keys.v, tiles, logits_of(problem), rank.lse, rank.delta, rank.d_out},
      rank.dq, keys.dk, keys.dv);
}

/// What a ring of ranks would compute, one rank after the other.
void run(Kernels& kernels, const Problem& problem, const std::vector<Rank>& ranks) {
  for (const Rank& rank : ranks) {
    for (const Rank& keys : ranks) forward(kernels, problem, rank, keys);
    kernels.finalize(rank.partial(), nullptr, rank.out, rank.lse);
    kernels.delta(rank.out, rank.d_out, rank.lse, nullptr, rank.delta, nullptr);
    for (const Rank& keys : ranks) backward(kernels, problem, rank, keys);
  }
}

std::vector<Rank> make_ranks(comm::Device& device, const Problem& problem, const OracleInputs& in,
                             LayoutKind layout = LayoutKind::contiguous, int ranks = 1) {
  std::vector<Rank> made;
  for (int r = 0; r < ranks; ++r) {
    made.emplace_back(device, problem, shard(layout, problem.sequence, ranks, r), in);
  }
  return made;
}

std::unique_ptr<Kernels> prepared(comm::Device& device, const Shape& shape) {
  auto kernels = make_kernels("cpu", device);
  kernels->prepare(shape);
  return kernels;
}

/// While it lives, kernels are made for this instruction set.
struct ChosenTarget {
  explicit ChosenTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ChosenTarget(const ChosenTarget&) = delete;
  ChosenTarget& operator=(const ChosenTarget&) = delete;
  ~ChosenTarget() { hwy::SetSupportedTargetsForTest(0); }
};

/// Runs with one of the machine's instruction sets.
class CpuKernelsTest : public testing::TestWithParam<std::int64_t> {
 protected:
  std::unique_ptr<Kernels> prepared(const Shape& shape) {
    return attention::prepared(*device_, shape);
  }

  const ChosenTarget chosen_{GetParam()};
  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
};

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

void expect_close(const std::vector<Rank>& ranks, const OracleResults& expected) {
  for (const Rank& rank : ranks) {
    const auto matches = [&](const char* what, const Tensor& actual, const Array& values,
                             const Array& unit) {
      EXPECT_TRUE(close(what, read(actual), take_tokens(values, rank.tokens),
                        take_tokens(unit, rank.tokens)));
    };
    matches("out", rank.out, expected.out, expected.out_unit);
    matches("lse", rank.lse, expected.lse, expected.lse_unit);
    matches("dq", rank.dq, expected.dq, expected.dq_unit);
    matches("dk", rank.dk, expected.dk, expected.dk_unit);
    matches("dv", rank.dv, expected.dv, expected.dv_unit);
  }
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
      run(*prepared(*device, c.shape), problem, ranks);
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

// Logits of tens of thousands, so that all but one weight of a row underflow.
TEST_P(CpuKernelsTest, HugeLogitsStayFiniteAndRight) {
  Problem problem = problem_of({"", 120, {.heads = 2}, {.right = 0}});
  problem.softmax_scale = 3000;
  const OracleInputs inputs = random_inputs(problem, 4);
  const OracleResults expected = oracle(problem, inputs);
  const auto ranks = make_ranks(*device_, problem, inputs);
  run(*prepared(problem.shape), problem, ranks);
  expect_close(ranks, expected);
}

TEST_P(CpuKernelsTest, LeavesRowsOutsideItsTilesAlone) {
  const Problem problem = problem_of({"", 40, {.heads = 2}});
  const auto ranks = make_ranks(*device_, problem, random_inputs(problem, 5));
  const Rank& rank = ranks[0];
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

void expect_nan_survives(comm::Device& device, const Problem& problem, const OracleInputs& inputs,
                         std::int64_t token) {
  const auto ranks = make_ranks(device, problem, inputs);
  const auto kernels = prepared(device, problem.shape);
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
  const Problem problem = problem_of({"", 70, {}, {.right = 0}});
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
  Problem problem = problem_of({"", 90, {}, {.right = 0}});
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

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuKernelsTest,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

}  // namespace
}  // namespace ringspan::attention
