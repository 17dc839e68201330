// SPDX-License-Identifier: Apache-2.0
// Probes that read properties straight off a schedule, without a reference to compare with. What
// must not leak is in leak_test.cpp.
#include "tests/attention/probe.hpp"

#include <cmath>
#include <numeric>

namespace ringspan::attention {
namespace {

constexpr double kUlp = 0x1p-23;  // of 1 in fp32

// Q = 0 and V = identity: row i of the output is 1/n on the n keys that it sees, and lse is ln n.
TEST(ProbeTest, XRayShowsTheMask) {
  for (const char* mask : kMasks) {
    const Problem problem = small_problem(mask);
    OracleInputs inputs = random_inputs(problem, 1);
    std::fill(inputs.q.values.begin(), inputs.q.values.end(), 0.0);
    for (const std::int64_t key : tokens_of(problem)) {
      change_token(inputs.v, key, [](double) { return 0.0; });
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 2; ++h) inputs.v.row(b, key, h)[key] = 1;
      }
    }
    Array seen(2, 19, 4, 19), ln(2, 19, 4, 1, -kInfinity);
    for (const std::int64_t query : tokens_of(problem)) {
      double n = 0;
      for (const std::int64_t key : tokens_of(problem)) n += sees(problem, query, key);
      for (std::int64_t bh = 0; bh < 8 && n > 0; ++bh) {
        *ln.row(bh / 4, query, bh % 4) = std::log(n);
        for (const std::int64_t key : tokens_of(problem)) {
          seen.row(bh / 4, query, bh % 4)[key] = sees(problem, query, key) / n;
        }
      }
    }
    for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
      SCOPED_TRACE(mask);
      const WholeResults results = compute(schedule, ranks, problem, inputs);
      EXPECT_TRUE(close("out", results.out, seen, seen, {.factor = 1}));  // 0 means exactly 0
      EXPECT_TRUE(close("lse", results.lse, ln, ln, {.factor = 2}));
    });
  }
}

// A weighted mean of ones is one: exactly on one rank, within P ulp on P.
TEST(ProbeTest, ValuesOfOneGiveOne) {
  for (const char* mask : kMasks) {
    const Problem problem = small_problem(mask, 61);
    OracleInputs inputs = random_inputs(problem, 2);
    std::fill(inputs.v.values.begin(), inputs.v.values.end(), 1.0);
    for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
      SCOPED_TRACE(mask);
      const WholeResults results = compute(schedule, ranks, problem, inputs);
      const int blocks = ranks / ulysses_degree(schedule, ranks);  // that are merged
      double worst = 0;
      for (std::size_t i = 0; i < results.out.values.size(); ++i) {
        const bool saw_nothing =
            std::isinf(results.lse.values[i / static_cast<std::size_t>(results.out.dim)]);
        const double error = std::abs(results.out.values[i] - (saw_nothing ? 0 : 1));
        worst = std::max(worst, std::isnan(error) ? kInfinity : error);
      }
      EXPECT_LE(worst, blocks == 1 ? 0 : blocks * kUlp);
    });
  }
}

// Every key twice: the same output, and lse grows by ln 2.
TEST(ProbeTest, DuplicateKeysAddLnTwo) {
  const Problem once = make_problem(
      "full", 17, {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = 6});
  Problem twice = once;
  twice.sequence.length = 34;
  const OracleInputs inputs = random_inputs(once, 3);
  const auto repeat = [](const Array& array) {
    Array repeated(array.batch, 2 * array.tokens, array.heads, array.dim);
    std::vector<std::int64_t> positions(array.tokens);
    for (std::int64_t copy = 0; copy < 2; ++copy) {
      std::iota(positions.begin(), positions.end(), copy * array.tokens);
      put_tokens(array, positions, repeated);
    }
    return repeated;
  };
  const OracleInputs repeated{
      repeat(inputs.q), repeat(inputs.k), repeat(inputs.v), repeat(inputs.d_out), {}};
  const OracleResults expected = oracle(once, inputs);
  Array lse = repeat(expected.lse);
  for (double& value : lse.values) value += std::log(2.0);
  for_each_schedule(twice, [&](const NamedSchedule& schedule, int ranks) {
    const WholeResults results = compute(schedule, ranks, twice, repeated);
    EXPECT_TRUE(close("out", results.out, repeat(expected.out), repeat(expected.out_unit)));
    EXPECT_TRUE(close("lse", results.lse, lse, repeat(expected.lse_unit)));
  });
}

// Whatever the timing, and whether hops copy or lend.
TEST(ProbeTest, RerunsHaveTheSameBits) {
  Problem problem = small_problem("causal");
  problem.sinks = true;
  const OracleInputs inputs = random_inputs(problem, 6);
  for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
    const WholeResults first = compute(schedule, ranks, problem, inputs);
    const comm::LaunchOptions lending{
        .ranks = ranks, .hop = comm::test::hops().back(), .deadline = 20};
    for (const WholeResults& again : {compute(schedule, ranks, problem, inputs, 1),
                                      compute(schedule, ranks, problem, inputs, 2),
                                      run(schedule, problem, inputs, lending, "cpu")}) {
      EXPECT_EQ(again.out.values, first.out.values);
      EXPECT_EQ(again.lse.values, first.lse.values);
      EXPECT_EQ(again.dq.values, first.dq.values);
      EXPECT_EQ(again.dk.values, first.dk.values);
      EXPECT_EQ(again.dv.values, first.dv.values);
      EXPECT_EQ(again.d_sinks.values, first.d_sinks.values);
    }
  });
}

// Weights sum to one, so the gradients of all keys sum to zero, for any mask; those of one rank's
// keys do not. A backward pass with each block's own lse makes every rank's vanish.
TEST(ProbeTest, KeyGradientsSumToZeroOverAllKeysOnly) {
  for (const char* mask : kMasks) {
    const Problem problem = small_problem(mask);
    const OracleInputs inputs = random_inputs(problem, 8);
    const Array unit = oracle(problem, inputs).dk_unit;
    for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
      SCOPED_TRACE(mask);
      const WholeResults results = compute(schedule, ranks, problem, inputs);
      for (std::int64_t d = 0; d < 6; ++d) {
        double sum = 0, bound = 0, half = 0;
        for (const std::int64_t t : tokens_of(problem)) {
          sum += results.dk.row(1, t, 1)[d];
          bound += kGradientFactor * kUlp * unit.row(1, t, 1)[d];
          if (t < 5) half += results.dk.row(1, t, 1)[d];
        }
        EXPECT_LE(std::abs(sum), bound);
        if (!problem.mask.documents) {
          EXPECT_GT(std::abs(half), bound);
        }
      }
    });
  }
}

}  // namespace
}  // namespace ringspan::attention
