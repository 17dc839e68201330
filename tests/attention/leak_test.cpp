// SPDX-License-Identifier: Apache-2.0
// What a token must not touch: rows that do not see it, whatever values it has.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/attention/probe.hpp"

namespace ringspan::attention {
namespace {

bool same_token(const Array& a, const Array& b, std::int64_t token) {
  const std::int64_t t[] = {token};
  return take_tokens(a, t).values == take_tokens(b, t).values;
}

// Other values at one token change no bit of what does not depend on it.
TEST(LeakTest, NothingLeaksThroughTheMask) {
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
    for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
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

/// An infinity or NaN at one token, in one of the inputs of one KV head.
struct Poison {
  Array OracleInputs::*input;
  std::int64_t b, kv_head;
  std::int64_t token = 7;

  template <typename AnyArray>
  auto* row(AnyArray& array, std::int64_t t) const {
    return array.row(b, t, kv_head * array.heads / 2);
  }

  bool reaches_query(const Problem& problem, std::int64_t query) const {
    const bool in_query = input == &OracleInputs::q || input == &OracleInputs::d_out;
    return in_query ? query == token : sees(problem, query, token);
  }
  bool reaches_key(const Problem& problem, std::int64_t key) const {
    const std::vector<std::int64_t> queries = tokens_of(problem);
    return std::any_of(queries.begin(), queries.end(), [&](std::int64_t query) {
      return sees(problem, query, key) && reaches_query(problem, query);
    });
  }
};

/// One of each, where they do not meet.
constexpr Poison kPoisons[] = {{&OracleInputs::q, 0, 0},
                               {&OracleInputs::k, 0, 1},
                               {&OracleInputs::v, 1, 0},
                               {&OracleInputs::d_out, 1, 1}};

/// Which results follow from which input.
struct Dependence {
  const char* what;
  Array WholeResults::*result;
  std::vector<Array OracleInputs::*> inputs;
  bool of_key;
};
const std::vector<Dependence> kDependences{
    {"out", &WholeResults::out, {&OracleInputs::q, &OracleInputs::k, &OracleInputs::v}, false},
    {"lse", &WholeResults::lse, {&OracleInputs::q, &OracleInputs::k}, false},
    {"dq",
     &WholeResults::dq,
     {&OracleInputs::q, &OracleInputs::k, &OracleInputs::v, &OracleInputs::d_out},
     false},
    {"dk",
     &WholeResults::dk,
     {&OracleInputs::q, &OracleInputs::k, &OracleInputs::v, &OracleInputs::d_out},
     true},
    {"dv", &WholeResults::dv, {&OracleInputs::q, &OracleInputs::k, &OracleInputs::d_out}, true}};

/// Where the poison does not reach, no bit is changed; where it does, a NaN is not hidden.
void expect_contained(const Problem& problem, const Poison& poison, double value,
                      const WholeResults& clean, const WholeResults& poisoned) {
  for (const Dependence& dependence : kDependences) {
    const auto& [what, result, inputs, of_key] = dependence;
    const bool depends = std::find(inputs.begin(), inputs.end(), poison.input) != inputs.end();
    for (const std::int64_t t : tokens_of(problem)) {
      const double* row = poison.row(poisoned.*result, t);
      const double* end = row + (poisoned.*result).dim;
      const bool reached =
          depends && (of_key ? poison.reaches_key(problem, t) : poison.reaches_query(problem, t));
      if (!reached) {
        EXPECT_TRUE(std::equal(row, end, poison.row(clean.*result, t)))
            << what << " of token " << t;
      } else if (std::isnan(value)) {
        EXPECT_TRUE(std::any_of(row, end, [](double x) { return std::isnan(x); }))
            << what << " of token " << t;
      }
    }
  }
}

// A weight of zero would let them through.
TEST(LeakTest, NonFiniteValuesReachOnlyWhatDependsOnThem) {
  for (const char* mask : kMasks) {
    const Problem problem = small_problem(mask);
    const OracleInputs inputs = random_inputs(problem, 9);
    for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
      const WholeResults clean = compute(schedule, ranks, problem, inputs);
      for (const double value : {kNaN, kInfinity, -kInfinity}) {
        OracleInputs changed = inputs;
        for (const Poison& poison : kPoisons) {
          poison.row(changed.*poison.input, poison.token)[3] = value;
        }
        const WholeResults poisoned = compute(schedule, ranks, problem, changed);
        for (const Poison& poison : kPoisons) {
          SCOPED_TRACE(concat(mask, ", ", value, " in batch entry ", poison.b, ", KV head ",
                              poison.kv_head));
          expect_contained(problem, poison, value, clean, poisoned);
        }
      }
    });
  }
}

// What lies in padding changes no bit of a real token, not even NaN; padding gives exact zeros.
TEST(LeakTest, PaddingIsNeitherReadNorLeftUnwritten) {
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
      for_each_schedule(problem, [&](const NamedSchedule& schedule, int ranks) {
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

}  // namespace
}  // namespace ringspan::attention
