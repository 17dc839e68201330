// SPDX-License-Identifier: Apache-2.0
// Probes that read properties straight off a schedule, without a reference to compare with.
#include <cmath>
#include <limits>
#include <numeric>

#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace {

constexpr double kUlp = 0x1p-23;  // of 1 in fp32
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<const char*> kMasks{"full",       "causal",    "window:2",
                                      "window:7:3", "documents", "documents+causal+window:2"};

/// Calls `probe(schedule, ranks)` for every schedule that is legal with 4 heads.
template <typename Probe>
void for_each_schedule(const Probe& probe) {
  for (const int ranks : kRanks) {
    for (const NamedSchedule& schedule : all_schedules(ranks)) {
      if (ulysses_degree(schedule, ranks) > 4) continue;
      SCOPED_TRACE(concat(describe(schedule), " on ", ranks, " ranks"));
      probe(schedule, ranks);
    }
  }
}

Problem small_problem(std::string_view mask, std::int64_t length = 19) {
  return make_problem(mask, length,
                      {.batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .value_dim = length});
}

WholeResults compute(const NamedSchedule& schedule, int ranks, const Problem& problem,
                     const OracleInputs& inputs, std::uint64_t delay_seed = 0) {
  comm::LaunchOptions options{.ranks = ranks, .deadline = 20, .debug = {.poison = true}};
  if (delay_seed) options.debug.max_delay = 100e-6, options.debug.seed = delay_seed;
  return run(schedule, problem, inputs, options, "cpu");
}

std::vector<std::int64_t> tokens_of(const Problem& problem) {
  std::vector<std::int64_t> tokens(problem.sequence.length);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// Every value of one token.
template <typename Change>
void change_token(Array& array, std::int64_t token, const Change& change) {
  for (std::int64_t b = 0; b < array.batch; ++b) {
    double* row = array.row(b, token, 0);
    for (std::int64_t i = 0; i < array.heads * array.dim; ++i) row[i] = change(row[i]);
  }
}

void change_token(OracleInputs& inputs, std::int64_t token, double value) {
  for (Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
    change_token(*array, token, [value](double) { return value; });
  }
}

bool same_token(const Array& a, const Array& b, std::int64_t token) {
  const std::int64_t t[] = {token};
  return take_tokens(a, t).values == take_tokens(b, t).values;
}

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
    for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
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
    for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
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
  for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
    const WholeResults results = compute(schedule, ranks, twice, repeated);
    EXPECT_TRUE(close("out", results.out, repeat(expected.out), repeat(expected.out_unit)));
    EXPECT_TRUE(close("lse", results.lse, lse, repeat(expected.lse_unit)));
  });
}

// Other values at one token change no bit of what does not depend on it.
TEST(ProbeTest, NothingLeaksThroughTheMask) {
  constexpr std::int64_t kToken = 7;
  for (const char* mask : kMasks) {
    const Problem problem = small_problem(mask);
    const std::vector<std::int64_t> tokens = tokens_of(problem);
    const auto affects_query = [&](std::int64_t query) {
      return query == kToken || sees(problem, query, kToken);
    };
    const auto affects_key = [&](std::int64_t key) {  // through a query that sees both
      return std::any_of(tokens.begin(), tokens.end(), [&](std::int64_t query) {
        return sees(problem, query, key) && affects_query(query);
      });
    };
    const OracleInputs inputs = random_inputs(problem, 4);
    OracleInputs changed = inputs;
    change_token(changed, kToken, 1.5);
    for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
      SCOPED_TRACE(mask);
      const WholeResults a = compute(schedule, ranks, problem, inputs);
      const WholeResults b = compute(schedule, ranks, problem, changed);
      for (const std::int64_t t : tokens) {
        const bool query = affects_query(t), key = affects_key(t);
        EXPECT_EQ(same_token(a.out, b.out, t), !query) << "out of token " << t;
        EXPECT_EQ(same_token(a.dq, b.dq, t), !query) << "dq of token " << t;
        EXPECT_EQ(same_token(a.dk, b.dk, t), !key) << "dk of token " << t;
        EXPECT_EQ(same_token(a.dv, b.dv, t), !key) << "dv of token " << t;
      }
    });
  }
}

// What lies in padding changes no bit of a real token, not even NaN; padding gives exact zeros.
TEST(ProbeTest, PaddingIsNeitherReadNorLeftUnwritten) {
  for (const char* mask : {"full", "causal", "documents+window:2:2"}) {
    for (const bool sinks : {false, true}) {
      Problem problem = small_problem(mask);
      problem.sequence.documents = {6, 0, 5};
      problem.sinks = sinks;
      OracleInputs zeros = random_inputs(problem, 5), nans = zeros;
      for (std::int64_t t = 11; t < 19; ++t) {
        change_token(zeros, t, 0);
        change_token(nans, t, kNaN);
      }
      for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
        SCOPED_TRACE(concat(mask, sinks ? ", sinks" : ""));
        const WholeResults a = compute(schedule, ranks, problem, zeros);
        const WholeResults b = compute(schedule, ranks, problem, nans);
        for (const auto& [with_zeros, with_nans, padding] :
             {std::tuple(&a.out, &b.out, 0.0), std::tuple(&a.lse, &b.lse, -kInfinity),
              std::tuple(&a.dq, &b.dq, 0.0), std::tuple(&a.dk, &b.dk, 0.0),
              std::tuple(&a.dv, &b.dv, 0.0)}) {
          EXPECT_EQ(with_zeros->values, with_nans->values);
          for (std::int64_t t = 11; t < 19; ++t) {
            EXPECT_EQ(*with_nans->row(1, t, 1), padding) << "token " << t;
          }
        }
        EXPECT_EQ(a.d_sinks.values, b.d_sinks.values);
      });
    }
  }
}

// Whatever the timing, and whether hops copy or lend.
TEST(ProbeTest, RerunsHaveTheSameBits) {
  Problem problem = small_problem("causal");
  problem.sinks = true;
  const OracleInputs inputs = random_inputs(problem, 6);
  for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
    const WholeResults first = compute(schedule, ranks, problem, inputs);
    const comm::LaunchOptions lending{.ranks = ranks, .hop = comm::Hop::reference, .deadline = 20};
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
    for_each_schedule([&](const NamedSchedule& schedule, int ranks) {
      SCOPED_TRACE(mask);
      const WholeResults results = compute(schedule, ranks, problem, inputs);
      for (std::int64_t d = 0; d < 6; ++d) {
        double sum = 0, bound = 0, half = 0;
        for (const std::int64_t t : tokens_of(problem)) {
          sum += results.dk.row(1, t, 1)[d];
          bound += 16 * kUlp * unit.row(1, t, 1)[d];
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
