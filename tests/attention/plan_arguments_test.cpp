// SPDX-License-Identifier: Apache-2.0
// What plans take, and what a refused call leaves behind.
#include "comm/error.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace plan_arguments_test {

// A mask that every schedule takes.
const Problem kProblem = make_problem("window:7:3", 16, {.heads = 4, .kv_heads = 2});

TEST(PlanArgumentsTest, ARefusedForwardPassLeavesASavedAsItWas) {
  const OracleInputs inputs = random_inputs(kProblem, 1);
  const OracleResults expected = oracle(kProblem, inputs);
  for (const NamedSchedule& schedule : every_schedule(2, kProblem.mask)) {
    SCOPED_TRACE(describe(schedule));
    const comm::LaunchOptions options{.ranks = 2, .deadline = 5};
    EXPECT_TRUE(comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      const RankTensors t(comm.device(), kProblem, made->shard(kProblem.sequence), inputs);
      const auto plan = made->plan(kProblem);
      const auto saved = plan->make_saved();
      plan->forward(t.inputs(), t.outputs(), saved.get());
      Inputs bad = t.inputs();
      bad.v = bad.v.slice_heads(0, 1);
      EXPECT_THROW(plan->forward(bad, t.outputs(), saved.get()), Error);
      plan->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients());
      return matches(t, expected, kProblem);
    }));
  }
}

// Such as a framework's tensors are: nothing to hold, no memory.
TEST(PlanArgumentsTest, ARankWithoutTokensMayHaveNoMemory) {
  if (!comm::test::enough_processes(4)) return;
  const Problem problem = make_problem("window:7:3", 2, {.heads = 4, .kv_heads = 2});
  const OracleInputs inputs = random_inputs(problem, 1);
  const OracleResults expected = oracle(problem, inputs);
  for (const NamedSchedule& schedule : every_schedule(4, problem.mask)) {
    SCOPED_TRACE(describe(schedule));
    const comm::LaunchOptions options{.ranks = 4, .deadline = 5};
    EXPECT_TRUE(comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      const RankTensors t(comm.device(), problem, made->shard(problem.sequence), inputs);
      const auto plan = made->plan(problem);
      const auto saved = plan->make_saved();
      const auto without_memory = [](auto view) {
        if (view.elements() == 0) view.data = nullptr;
        return view;
      };
      const Inputs in{without_memory(t.inputs().q), without_memory(t.inputs().k),
                      without_memory(t.inputs().v)};
      const Outputs out{without_memory(t.outputs().out), without_memory(t.outputs().lse)};
      const Gradients gradients{without_memory(t.gradients().dq), without_memory(t.gradients().dk),
                                without_memory(t.gradients().dv)};
      plan->forward(in, out, saved.get());
      plan->backward(in, out, *saved, without_memory(t.d_out.view()), gradients);
      return matches(t, expected, problem);
    }));
  }
}

}  // namespace plan_arguments_test
}  // namespace ringspan::attention
