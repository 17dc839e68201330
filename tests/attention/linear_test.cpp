// SPDX-License-Identifier: Apache-2.0
// Ulysses around a kernel that is no softmax: linear attention, against its formulas on dense
// weights.
#include <cmath>

#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/modelled_device.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace linear_test {

using testing::HasSubstr;

double phi(double x) { return x > 0 ? x + 1 : std::exp(x); }
double phi_slope(double x) { return x > 0 ? 1 : std::exp(x); }

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
  return sum;
}

/// One query head of one batch entry: weights w of all pairs, out = sum w v / Z, and from
/// dw = (d_out.v - d_out.out) / Z the gradients of q, k and v by the chain rule.
void attend_densely(const Problem& problem, const OracleInputs& in, std::int64_t b, std::int64_t h,
                    WholeResults& results) {
  const Shape& s = problem.shape;
  const std::int64_t g = h / (s.heads / s.kv_heads), length = problem.sequence.length;
  const double scale = problem.softmax_scale.value_or(1 / std::sqrt(s.head_dim));
  for (std::int64_t i = 0; i < length; ++i) {
    const double *q = in.q.row(b, i, h), *d_out = in.d_out.row(b, i, h);
    double* out = results.out.row(b, i, h);
    std::vector<double> w(length);
    double z = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      if (!sees(problem, i, j)) continue;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        w[j] += scale * phi(q[d]) * phi(in.k.row(b, j, g)[d]);
      }
      z += w[j];
    }
    *results.lse.row(b, i, h) = std::log(z);  // -inf where nothing is seen
    if (z == 0) continue;
    for (std::int64_t j = 0; j < length; ++j) {
      for (std::int64_t d = 0; d < s.value_dim; ++d) out[d] += w[j] / z * in.v.row(b, j, g)[d];
    }
    for (std::int64_t j = 0; j < length; ++j) {
      if (!sees(problem, i, j)) continue;
      const double *k = in.k.row(b, j, g), *v = in.v.row(b, j, g);
      const double dw = (dot(d_out, v, s.value_dim) - dot(d_out, out, s.value_dim)) / z;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        results.dq.row(b, i, h)[d] += dw * scale * phi(k[d]) * phi_slope(q[d]);
        results.dk.row(b, j, g)[d] += dw * scale * phi(q[d]) * phi_slope(k[d]);
      }
      for (std::int64_t d = 0; d < s.value_dim; ++d) {
        results.dv.row(b, j, g)[d] += w[j] / z * d_out[d];
      }
    }
  }
}

WholeResults dense(const Problem& problem, const OracleInputs& inputs) {
  WholeResults results(problem);
  for (std::int64_t b = 0; b < problem.shape.batch; ++b) {
    for (std::int64_t h = 0; h < problem.shape.heads; ++h) {
      attend_densely(problem, inputs, b, h, results);
    }
  }
  return results;
}

WholeResults run_linear(const NamedSchedule& schedule, const Problem& problem,
                        const OracleInputs& inputs, int ranks) {
  WholeResults whole(problem);
  comm::test::launch({.ranks = ranks, .deadline = 20}, [&](const comm::Communicator& comm) {
    const auto kernels = make_linear_kernels(comm.device());
    const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
    run_rank(*made, comm, problem, inputs).put_into(whole, false);
  });
  whole.share();
  return whole;
}

/// Relative to the largest value; lse is fp32.
testing::AssertionResult near(const char* what, const Array& actual, const Array& expected,
                              double tolerance) {
  double largest = 1;
  for (const double value : expected.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = actual.values[i], e = expected.values[i];
    if (a == e || std::abs(a - e) <= tolerance * largest) continue;
    return testing::AssertionFailure() << what << '[' << i << "] is " << a << " instead of " << e;
  }
  return testing::AssertionSuccess();
}

void expect_matches(const NamedSchedule& schedule, const Problem& problem, int ranks) {
  SCOPED_TRACE(concat(describe(schedule), " on ", ranks, " ranks, ", describe(problem)));
  const OracleInputs inputs = random_inputs(problem, 1);
  const WholeResults expected = dense(problem, inputs);
  const WholeResults actual = run_linear(schedule, problem, inputs, ranks);
  const double tolerance = problem.shape.dtype == DType::f64 ? 1e-13 : 1e-5;
  EXPECT_TRUE(near("out", actual.out, expected.out, tolerance));
  EXPECT_TRUE(near("lse", actual.lse, expected.lse, 1e-6));
  EXPECT_TRUE(near("dq", actual.dq, expected.dq, tolerance));
  EXPECT_TRUE(near("dk", actual.dk, expected.dk, tolerance));
  EXPECT_TRUE(near("dv", actual.dv, expected.dv, tolerance));
}

Shape shape(std::int64_t heads, std::int64_t kv_heads, DType dtype = DType::f64) {
  return {.batch = 2,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 6,
          .value_dim = 10,
          .dtype = dtype};
}

TEST(LinearTest, IsRightInsideUlyssesOnAnyNumberOfRanks) {
  for (const char* mask : {"full", "causal", "documents+causal"}) {
    for (const auto& [heads, kv_heads] : {std::pair(8, 8), std::pair(8, 2), std::pair(7, 1)}) {
      for (const int ranks : {1, 2, 3, 4, 5, 7}) {
        if (!comm::test::enough_processes(ranks)) continue;
        expect_matches({"ulysses"}, make_problem(mask, 29, shape(heads, kv_heads)), ranks);
      }
    }
  }
}

// It is a kernel like any other, so all schedules and masks take it.
TEST(LinearTest, IsRightInOtherSchedules) {
  if (!comm::test::enough_processes(4)) GTEST_SKIP() << "needs 4 ranks";
  for (const char* mask : {"causal", "window:7:3"}) {
    const Problem problem = make_problem(mask, 29, shape(6, 3));
    for (const NamedSchedule& schedule :
         {NamedSchedule{"zigzag"}, NamedSchedule{"striped"}, NamedSchedule{"dist_flash"},
          NamedSchedule{"ulysses_overlapped"}, NamedSchedule{"usp", {.ulysses_degree = 2}}}) {
      expect_matches(schedule, problem, 4);
    }
  }
}

TEST(LinearTest, TakesNarrowTensors) {
  expect_matches({"ulysses"}, make_problem("causal", 29, shape(6, 3, DType::f32)), 3);
}

// exp(-120) is below all fp32 numbers.
TEST(LinearTest, RowsWhoseWeightsAreTooSmallSeeNothing) {
  const Problem problem = make_problem("causal", 8, shape(2, 1, DType::f32));
  OracleInputs inputs = random_inputs(problem, 1);
  for (double& value : inputs.q.values) value = -120;
  const WholeResults actual = run_linear({"ring"}, problem, inputs, 1);
  for (const double lse : actual.lse.values) EXPECT_TRUE(std::isinf(lse) && lse < 0) << lse;
  for (const Array* zeros : {&actual.out, &actual.dq, &actual.dk, &actual.dv}) {
    EXPECT_THAT(zeros->values, testing::Each(0.0));
  }
}

TEST(LinearTest, WhatHasNoMeaningIsRefusedWhenPlanned) {
  const auto refusal = [](const Problem& problem) -> std::string {
    try {
      run_linear({"ulysses"}, problem, random_inputs(problem, 1), 2);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "nothing was refused";
  };
  Problem problem = make_problem("causal", 8, shape(4, 4));
  problem.softcap = 2.5;
  EXPECT_THAT(refusal(problem), HasSubstr("softcap"));
  problem.softcap = {};
  problem.softmax_scale = -1;
  EXPECT_THAT(refusal(problem), HasSubstr("softmax_scale is -1"));
}

TEST(LinearTest, IsRefusedWhereTheHostDoesNotReachTheMemory) {
  ModelledDevice device{{}};
  device.host_reaches = false;
  for (const bool linear : {false, true}) {
    try {
      (void)(linear ? make_linear_kernels(device) : make_kernels("cpu", device));
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("runs on the host"));
    }
  }
}

}  // namespace linear_test
}  // namespace ringspan::attention
