// SPDX-License-Identifier: Apache-2.0
// What schedules and plans refuse, saved passes, composition.
#include "attention/schedule.hpp"

#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One rank of a schedule, without a launch around it.
class ScheduleTest : public testing::Test {
 protected:
  static std::string refusal(const NamedSchedule& schedule, const Problem& problem,
                             comm::LaunchOptions options = {}) {
    options.deadline = 5;
    try {
      run(schedule, problem, random_inputs(problem, 1), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
      return error.what();
    }
    return "nothing was refused";
  }

  const Problem problem_ = make_problem("causal", 16, {.heads = 4, .kv_heads = 2});
};

TEST_F(ScheduleTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(
      refusal({"rings"}, problem_),
      AllOf(HasSubstr("'rings'"),
            HasSubstr("ring, striped, zigzag, ulysses, ulysses_overlapped, usp, all_gather_kv")));
}

TEST_F(ScheduleTest, OptionsThatAScheduleDoesNotHaveAreRefusedByName) {
  EXPECT_THAT(refusal({"zigzag", {.layout = LayoutKind::striped}}, problem_), HasSubstr("layout"));
  EXPECT_THAT(refusal({"ring", {.ulysses_degree = 2}}, problem_), HasSubstr("ulysses_degree"));
  EXPECT_THAT(refusal({"ulysses", {.placement = Placement::ring_inner}}, problem_),
              HasSubstr("placement"));
  EXPECT_THAT(
      refusal({"all_gather_kv", {.all_to_all = comm::AllToAllAlgorithm::automatic}}, problem_),
      HasSubstr("all-to-all"));
}

TEST_F(ScheduleTest, IllegalDegreesAreRefusedWithTheLegalOnes) {
  EXPECT_THAT(refusal({"usp", {.ulysses_degree = 3}}, problem_, {.ranks = 4}),
              AllOf(HasSubstr("3"), HasSubstr("1, 2, 4")));
  EXPECT_THAT(refusal({"usp"}, problem_, {.ranks = 5, .ranks_per_node = 2}),
              HasSubstr("ulysses_degree must be given"));
  EXPECT_THAT(refusal({"ulysses"}, problem_, {.ranks = 5}),
              AllOf(HasSubstr("4 heads on 5 ranks"), HasSubstr("at most 4")));
}

TEST_F(ScheduleTest, ProblemsThatMakeNoSenseAreRefused) {
  const auto with = [this](auto change) {
    Problem problem = problem_;
    change(problem);
    try {
      require_valid(problem);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("valid");
  };
  EXPECT_EQ(with([](Problem&) {}), "valid");
  EXPECT_THAT(with([](Problem& p) { p.shape.kv_heads = 3; }), HasSubstr("does not divide"));
  EXPECT_THAT(with([](Problem& p) { p.shape.batch = 0; }), HasSubstr("batch is 0"));
  EXPECT_THAT(with([](Problem& p) { p.shape.value_dim = -1; }), HasSubstr("value_dim is -1"));
  EXPECT_THAT(with([](Problem& p) { p.sequence.length = -1; }), HasSubstr("-1"));
  EXPECT_THAT(with([](Problem& p) {
                p.sequence.documents = {9, 9};
              }),
              HasSubstr("document 1 has 9 tokens"));
  EXPECT_THAT(with([](Problem& p) { p.mask.left = -1; }), HasSubstr("left is -1"));
  EXPECT_THAT(with([](Problem& p) { p.softcap = 0.0; }), HasSubstr("softcap is 0"));
  EXPECT_THAT(with([](Problem& p) { p.softcap = 1e300; }), HasSubstr("1e-30 to 1e+30"));
  EXPECT_THAT(with([](Problem& p) { p.softcap = 1e-40; }), HasSubstr("1e-30 to 1e+30"));
  EXPECT_THAT(with([](Problem& p) { p.softcap = std::nan(""); }), HasSubstr("softcap is nan"));
  EXPECT_THAT(with([](Problem& p) { p.softmax_scale = 1 / 0.0; }), HasSubstr("softmax_scale"));
  EXPECT_THAT(with([](Problem& p) { p.sequence.length = 1ll << 60; }), HasSubstr("64 bits"));
}

/// What planning is refused with, which must be the same on all ranks and leave them usable.
void expect_refused_alike(const comm::Communicator& comm, Schedule& schedule,
                          const Problem& problem, const std::string& message) {
  try {
    (void)schedule.plan(problem);
    ADD_FAILURE() << "nothing was refused on rank " << comm.rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(message)) << "rank " << comm.rank();
  }
  comm::barrier(comm);
}

// Three heads on two ranks are two and one, and one head cannot be cut again.
TEST_F(ScheduleTest, WhatOneRankCannotDoIsRefusedOnAll) {
  const Problem problem = make_problem("causal", 16, {.heads = 3, .kv_heads = 3});
  comm::test::launch({.ranks = 4, .deadline = 5}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("reference", comm.device());
    const comm::Communicator low = comm.split(comm.rank() / 2, 0);
    const comm::Communicator high = comm.split(comm.rank() % 2, 0);
    const auto direct = comm::AllToAllAlgorithm::direct;
    auto ring = make_ring(comm.split(comm.rank(), 0), *kernels, LayoutKind::contiguous);
    const auto nested =
        make_ulysses(low, *kernels, make_ulysses(high, *kernels, std::move(ring), direct), direct);
    expect_refused_alike(comm, *nested, problem, "1 heads on 2 ranks");
  });
}

// First, only rank 0 would meet more tiles than are allowed: the others have padding.
TEST_F(ScheduleTest, TooManyDocumentsAreRefusedOnAllRanks) {
  Problem problem = make_problem("full", 4 * kMaxTiles, {.head_dim = 1, .value_dim = 1});
  problem.mask.documents = true;
  problem.sequence.documents.assign(kMaxTiles + 1, 1);
  comm::test::launch({.ranks = 2, .deadline = 20}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("reference", comm.device());
    for (const char* name : {"ring", "all_gather_kv"}) {
      const ScheduleOptions contiguous{.layout = LayoutKind::contiguous};
      const auto schedule = make_schedule(name, comm, *kernels, contiguous);
      expect_refused_alike(comm, *schedule, problem, "1048577 documents");
    }
  });
  // Zigzag cuts them whatever the mask: ranks 1 and 2 hold 1200 runs, 0 and 3 half as many.
  problem.mask = {};
  problem.sequence = {4800, std::vector<std::int64_t>(600, 8)};
  comm::test::launch({.ranks = 4, .deadline = 20}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("reference", comm.device());
    for (const char* name : {"all_gather_kv", "bidirectional_ring", "ring_self_attention"}) {
      const auto schedule = make_schedule(name, comm, *kernels, {.layout = LayoutKind::zigzag});
      expect_refused_alike(comm, *schedule, problem, "1200 runs");
    }
  });
}

// A wrong local length, such as that of an unsharded tensor, is refused before anything moves.
TEST_F(ScheduleTest, TensorsThatAreNotTheShardAreRefused) {
  const OracleInputs inputs = random_inputs(problem_, 1);
  const std::vector<NamedSchedule> schedules{
      {"ring"}, {"zigzag"}, {"ulysses"}, {"all_gather_kv"}, {"usp", {.ulysses_degree = 2}}};
  for (const NamedSchedule& schedule : schedules) {
    comm::test::launch({.ranks = 4, .deadline = 5}, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      const auto plan = made->plan(problem_);
      const auto saved = plan->make_saved();
      const RankTensors right(comm.device(), problem_, made->shard(problem_.sequence), inputs);
      const RankTensors whole(comm.device(), problem_, {{0, 1, 16}}, inputs);
      const std::int64_t messages = comm.traffic().messages_sent;
      const auto refusal = [&](const Inputs& in, const Outputs& out) {
        try {
          plan->forward(in, out, saved.get());
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string("nothing was refused");
      };
      EXPECT_THAT(refusal(whole.inputs(), whole.outputs()),
                  AllOf(HasSubstr("q has 16 tokens"), HasSubstr("shard has 4 of the 16")));
      Inputs in = right.inputs();
      in.v = in.v.slice_heads(0, 1);
      EXPECT_THAT(refusal(in, right.outputs()), HasSubstr("v is [1][4][1][64]"));
      in = right.inputs();
      in.sinks = right.lse;
      EXPECT_THAT(refusal(in, right.outputs()), HasSubstr("sinks"));
      Outputs out = right.outputs();
      out.lse.dtype = DType::f16;
      EXPECT_THAT(refusal(right.inputs(), out), HasSubstr("lse"));
      EXPECT_EQ(comm.traffic().messages_sent, messages);
      plan->forward(right.inputs(), right.outputs(), saved.get());  // still usable
    });
  }
}

// One saved per layer in flight: a plan takes its own only, and none that no forward pass filled.
TEST_F(ScheduleTest, SavedOfAnotherPlanIsRefused) {
  const OracleInputs inputs = random_inputs(problem_, 1);
  for (const NamedSchedule& schedule : every_schedule(2, problem_.mask)) {
    comm::test::launch({.ranks = 2, .deadline = 5}, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      const RankTensors t(comm.device(), problem_, made->shard(problem_.sequence), inputs);
      const auto plan = made->plan(problem_), other = made->plan(problem_);
      const auto saved = plan->make_saved(), of_other = other->make_saved();
      EXPECT_THROW(plan->forward(t.inputs(), t.outputs(), of_other.get()), Error);
      EXPECT_THROW(plan->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients()), Error);
      plan->forward(t.inputs(), t.outputs(), saved.get());
      EXPECT_THROW(other->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients()), Error);
      plan->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients());
    });
  }
}

// A new plan may well lie where the old one was.
TEST_F(ScheduleTest, SavedOfAnEarlierPlanIsRefused) {
  const OracleInputs inputs = random_inputs(problem_, 1);
  comm::test::launch({}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("reference", comm.device());
    const auto ring = make_schedule("ring", comm, *kernels);
    const RankTensors t(comm.device(), problem_, ring->shard(problem_.sequence), inputs);
    auto plan = ring->plan(problem_);
    const auto saved = plan->make_saved();
    plan->forward(t.inputs(), t.outputs(), saved.get());
    for (int again = 0; again < 8; ++again) {
      plan.reset();
      plan = ring->plan(problem_);
      (void)plan->make_saved();
      EXPECT_THROW(plan->backward(t.inputs(), t.outputs(), *saved, t.d_out, t.gradients()), Error);
    }
  });
}

// Two layers forward, then backward in reverse, on one plan: as one layer after the other.
TEST_F(ScheduleTest, OnePlanServesSeveralLayersInFlight) {
  const OracleInputs first = random_inputs(problem_, 1), second = random_inputs(problem_, 2);
  const OracleResults expected[] = {oracle(problem_, first), oracle(problem_, second)};
  for (const int ranks : {1, 2, 4}) {
    if (!comm::test::enough_processes(ranks)) continue;
    for (const NamedSchedule& schedule : every_schedule(ranks, problem_.mask)) {
      SCOPED_TRACE(concat(describe(schedule), " on ", ranks, " ranks"));
      const comm::LaunchOptions options{
          .ranks = ranks, .hop = comm::test::hops().back(), .deadline = 5};
      EXPECT_TRUE(comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
        const auto kernels = make_kernels("reference", comm.device());
        const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
        const Shard shard = made->shard(problem_.sequence);
        const auto plan = made->plan(problem_);
        std::vector<RankTensors> layers;
        std::vector<std::unique_ptr<Saved>> saved;
        for (const OracleInputs* inputs : {&first, &second}) {
          layers.emplace_back(comm.device(), problem_, shard, *inputs);
          saved.push_back(plan->make_saved());
          plan->forward(layers.back().inputs(), layers.back().outputs(), saved.back().get());
        }
        plan->forward(layers[0].inputs(), layers[0].outputs(), nullptr);  // and one without
        testing::AssertionResult result = testing::AssertionSuccess();
        for (const int i : {1, 0}) {
          plan->backward(layers[i].inputs(), layers[i].outputs(), *saved[i], layers[i].d_out,
                         layers[i].gradients());
          if (result) result = matches(layers[i], expected[i], problem_);
        }
        return result;
      }));
    }
  }
}

// On nodes of three, pairs take one rank of each; on nodes of four and two, threes do.
TEST_F(ScheduleTest, UspFollowsNodesThatItsDegreeDoesNotDivide) {
  const OracleInputs inputs = random_inputs(problem_, 1);
  const OracleResults expected = oracle(problem_, inputs);
  for (const auto& [degree, ranks_per_node] : {std::pair(2, 3), std::pair(3, 4)}) {
    for (const Placement placement : {Placement::ulysses_inner, Placement::ring_inner}) {
      const NamedSchedule usp{"usp",
                              {.ulysses_degree = degree,
                               .placement = placement,
                               .all_to_all = comm::AllToAllAlgorithm::hierarchical}};
      EXPECT_TRUE(run_and_compare(usp, problem_, inputs, expected,
                                  {.ranks = 6, .ranks_per_node = ranks_per_node, .deadline = 20}))
          << describe(usp);
    }
  }
  // The ring of each rank of a pair is on other nodes, two of eight ranks' pairs across two.
  if (!comm::test::enough_processes(8)) return;
  const NamedSchedule inner_rings{"usp", {.ulysses_degree = 2, .inner_ring = 2}};
  EXPECT_TRUE(run_and_compare(inner_rings, problem_, inputs, expected,
                              {.ranks = 8, .ranks_per_node = 3, .deadline = 20}));
}

// Composition instead of options: ulysses takes any inner schedule, itself included.
TEST_F(ScheduleTest, UlyssesWrapsAnyInnerSchedule) {
  const OracleInputs inputs = random_inputs(problem_, 1);
  const OracleResults expected = oracle(problem_, inputs);
  for (const bool nested : {false, true}) {
    SCOPED_TRACE(nested ? "ulysses" : "all_gather_kv");
    const comm::LaunchOptions options{.ranks = 4, .deadline = 5};
    EXPECT_TRUE(comm::test::on_every_rank(options, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      const comm::Communicator low = comm.split(comm.rank() / 2, 0);
      const comm::Communicator high = comm.split(comm.rank() % 2, 0);
      const comm::Communicator alone = comm.split(comm.rank(), 0);
      const auto direct = comm::AllToAllAlgorithm::direct;
      auto inner = nested ? make_ulysses(high, *kernels,
                                         make_ring(alone, *kernels, LayoutKind::contiguous), direct)
                          : make_all_gather_kv(high, *kernels, LayoutKind::striped);
      const auto schedule = make_ulysses(low, *kernels, std::move(inner), direct);
      return matches(run_rank(*schedule, comm, problem_, inputs), expected, problem_);
    }));
  }
}

}  // namespace
}  // namespace ringspan::attention
