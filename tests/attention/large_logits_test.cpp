// SPDX-License-Identifier: Apache-2.0
// Logits so large that lse, which is rounded to fp32, is off by far more than 1.
#include "comm/error.hpp"
#include "tests/attention/local_attention.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace large_logits_test {

constexpr double kScales[] = {1e7, 1e9, -1e12, 1e30};

Problem problem_of(double scale, bool reproducible = false) {
  Problem problem;
  problem.shape = {.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 6, .value_dim = 10};
  problem.shape.reproducible = reproducible;
  problem.sequence = {.length = 29};
  problem.mask.right = 0;
  problem.softmax_scale = scale;
  problem.sinks = true;
  return problem;
}

/// Half of the sinks are as large as logits may be.
OracleInputs inputs_of(const Problem& problem) {
  OracleInputs inputs = random_inputs(problem, 1);
  for (std::size_t h = 0; h < inputs.sinks.size(); h += 2) {
    inputs.sinks[h] = static_cast<float>(1.2345678 * std::abs(*problem.softmax_scale));
  }
  return inputs;
}

TEST(LargeLogitsTest, NoWeightIsAbove1) {
  for (const std::string& family : computing_families()) {
    for (const double scale : kScales) {
      SCOPED_TRACE(concat(family, ", softmax_scale ", scale));
      const Problem problem = problem_of(scale);
      const OracleInputs inputs = inputs_of(problem);
      const LocalResults results = attend(family, problem, inputs, one_key_block(problem));
      for (const double out : results.out.values) ASSERT_TRUE(std::isfinite(out));
      expect_bounded(results.dq, results.dk, results.dv, results.d_sinks, inputs);
    }
  }
}

TEST(LargeLogitsTest, NoWeightIsAbove1InSchedules) {
  const std::pair<const char*, const char*> cases[] = {{"ring_self_attention", "reference"},
                                                       {"ring_self_attention", "cpu"},
                                                       {"zigzag", "cpu"},
                                                       {"zigzag", "reproducible"}};
  for (const auto& [schedule, kernels] : cases) {
    for (const double scale : kScales) {
      SCOPED_TRACE(concat(schedule, ", ", kernels, ", softmax_scale ", scale));
      const Problem problem = problem_of(scale, std::string_view(kernels) == "reproducible");
      const OracleInputs inputs = inputs_of(problem);
      const WholeResults results = run({schedule}, problem, inputs, {.ranks = 2}, kernels);
      expect_bounded(results.dq, results.dk, results.dv, results.d_sinks, inputs);
    }
  }
}

}  // namespace large_logits_test
}  // namespace ringspan::attention
