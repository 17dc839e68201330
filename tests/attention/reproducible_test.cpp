// SPDX-License-Identifier: Apache-2.0
// Bit-identical results on every number of ranks and in every schedule.
#include <cmath>
#include <cstring>
#include <optional>

#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace reproducible_test {

using testing::HasSubstr;

Problem reproducible_problem(std::string_view mask, std::int64_t heads, std::int64_t kv_heads,
                             DType dtype) {
  Problem problem = make_problem(mask, 19,
                                 {.batch = 2,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = 5,
                                  .value_dim = 3,
                                  .dtype = dtype,
                                  .reproducible = true});
  problem.sinks = kv_heads == 2;
  return problem;
}

/// Uneven lengths, GQA, copied KV heads, every kind of mask.
std::vector<Problem> problems() {
  return {reproducible_problem("full", 7, 7, DType::f32),
          reproducible_problem("causal", 8, 2, DType::f32),
          reproducible_problem("window:7:3", 8, 1, DType::bf16),
          reproducible_problem("documents+causal", 8, 4, DType::f16),
          reproducible_problem("documents+causal+window:9", 12, 3, DType::bf16)};
}

std::vector<NamedSchedule> schedules(const Problem& problem, int ranks) {
  std::vector<NamedSchedule> legal;
  for (const NamedSchedule& schedule : every_schedule(ranks, problem.mask)) {
    if (schedule.name == "ring_self_attention") continue;  // refused: it needs kernels for scores
    if (ulysses_degree(schedule, ranks) <= problem.shape.heads) legal.push_back(schedule);
  }
  return legal;
}

bool same(const Array& a, const Array& b) {
  return a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(double)) == 0);
}

bool same(const WholeResults& a, const WholeResults& b) {
  return same(a.out, b.out) && same(a.lse, b.lse) && same(a.dq, b.dq) && same(a.dk, b.dk) &&
         same(a.dv, b.dv) && same(a.d_sinks, b.d_sinks);
}

TEST(ReproducibleTest, EveryScheduleOnEveryNumberOfRanksHasTheSameBits) {
  for (const Problem& problem : problems()) {
    const OracleInputs inputs = random_inputs(problem, 1);
    const WholeResults one = run({"ring"}, problem, inputs, {}, "reproducible");
    for (const int ranks : rank_counts()) {
      const comm::LaunchOptions launch{.ranks = ranks,
                                       .hop = comm::test::hops().back(),
                                       .deadline = 20,
                                       .debug = {.poison = true}};
      for (const NamedSchedule& schedule : schedules(problem, ranks)) {
        EXPECT_TRUE(same(run(schedule, problem, inputs, launch, "reproducible"), one))
            << describe(schedule) << " on " << ranks << " ranks, " << describe(problem);
      }
    }
  }
}

// Sums travel, too, where gradients do: 16 bytes each.
TEST(ReproducibleTest, CausesTheTrafficOfTheClosedForms) {
  for (const Problem& problem : problems()) {
    const OracleInputs inputs = random_inputs(problem, 1);
    constexpr int kRanks = 4;
    comm::test::launch({.ranks = kRanks, .deadline = 20}, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("null", comm.device());
      for (const auto& [name, options] : schedules(problem, kRanks)) {
        const auto made = make_schedule(name, comm, *kernels, options);
        const comm::Traffic before = comm.traffic();
        run_rank(*made, comm, problem, inputs);
        Traffic due = forward_traffic(name, options, problem, comm.world(), comm.rank(), true);
        due += backward_traffic(name, options, problem, comm.world(), comm.rank());
        EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent, due.bytes)
            << describe(NamedSchedule{name, options}) << ", " << describe(problem);
      }
    });
  }
}

// Sums in fp32 depend on their order: so the test above can fail.
TEST(ReproducibleTest, OtherKernelsHaveOtherBits) {
  Problem problem = reproducible_problem("causal", 8, 2, DType::f32);
  problem.shape.reproducible = false;
  const OracleInputs inputs = random_inputs(problem, 1);
  const WholeResults one = run({"ring"}, problem, inputs, {}, "reference");
  for (const char* schedule : {"ring", "striped", "all_gather_kv"}) {
    if (!comm::test::enough_processes(3)) continue;
    EXPECT_FALSE(
        same(run({schedule}, problem, inputs, {.ranks = 3, .deadline = 20}, "reference"), one));
  }
}

TEST(ReproducibleTest, MatchesTheOracle) {
  for (Problem problem : problems()) {
    for (const std::optional<double> softcap : {std::optional<double>(), {2.5}}) {
      problem.softcap = softcap;
      const OracleInputs inputs = random_inputs(problem, 2);
      EXPECT_TRUE(run_and_compare({"zigzag"}, problem, inputs, oracle(problem, inputs),
                                  {.ranks = 3, .deadline = 20}, "reproducible"))
          << describe(problem);
    }
  }
}

// Logits of thousands, rising and falling from block to block, and far beyond what fp32 can scale.
TEST(ReproducibleTest, LargeLogitsAreNoException) {
  for (const double scale : {300.0, 1e8, 1e20}) {
    Problem problem = reproducible_problem("full", 4, 2, DType::f32);
    problem.sinks = false;
    problem.softmax_scale = scale;
    const OracleInputs inputs = random_inputs(problem, 3);
    const WholeResults one = run({"ring"}, problem, inputs, {}, "reproducible");
    for (const double value : one.out.values) ASSERT_TRUE(std::isfinite(value));
    for (const char* schedule : {"ring", "striped", "dist_flash", "ulysses"}) {
      EXPECT_TRUE(
          same(run({schedule}, problem, inputs, {.ranks = 4, .deadline = 20}, "reproducible"), one))
          << schedule << ", scale " << scale;
    }
  }
}

TEST(ReproducibleTest, KernelsAndShapeMustAgree) {
  const auto refusal = [](bool reproducible, std::string_view kernels) -> std::string {
    Problem problem = reproducible_problem("full", 4, 4, DType::f32);
    problem.shape.reproducible = reproducible;
    try {
      run({"ring"}, problem, random_inputs(problem, 1), {.ranks = 2, .deadline = 5}, kernels);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal(false, "reproducible"), HasSubstr("set Shape::reproducible"));
  EXPECT_THAT(refusal(true, "cpu"), HasSubstr("choose the reproducible kernels"));
  EXPECT_THAT(refusal(true, "reference"), HasSubstr("choose the reproducible kernels"));
}

}  // namespace reproducible_test
}  // namespace ringspan::attention
