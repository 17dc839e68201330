// SPDX-License-Identifier: Apache-2.0
// Sliding windows: the right values, and no more bytes than the windows need.
#include "attention/closed_forms.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace halo_test {

using testing::AllOf;
using testing::HasSubstr;

const NamedSchedule kHalo{"halo"};
constexpr Shape kShape{.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 6, .value_dim = 10};
constexpr std::int64_t kTokenBytes = 2 * 3 * (6 + 10) * 4;  // of K and V in fp32

/// Narrower than a shard, as wide, and as wide as several; one and two sides; documents that cut.
const std::vector<const char*> kMasks{
    "window:0",  "window:2",     "window:0:3",  "window:7:3",
    "window:17", "window:40:40", "window:3:17", "documents+window:9:4"};

TEST(HaloTest, MatchesTheOracle) {
  for (const char* mask : kMasks) {
    for (const std::int64_t length : {5, 29}) {
      Problem problem = make_problem(mask, length, kShape);
      problem.sinks = true;
      const OracleInputs inputs = random_inputs(problem, 1);
      const OracleResults expected = oracle(problem, inputs);
      for (const int ranks : {1, 2, 3, 4, 5, 7}) {
        if (!comm::test::enough_processes(ranks)) continue;
        const comm::LaunchOptions launch{.ranks = ranks,
                                         .hop = comm::test::hops().back(),
                                         .deadline = 20,
                                         .debug = {.ledger = true, .poison = true}};
        EXPECT_TRUE(run_and_compare(kHalo, problem, inputs, expected, launch, "cpu"))
            << ranks << " ranks, " << describe(problem);
      }
    }
  }
}

/// What a forward and a backward pass sent.
std::pair<Traffic, Traffic> traffic_of(const comm::Communicator& comm, Schedule& halo,
                                       const Problem& problem, const OracleInputs& inputs) {
  const RankTensors tensors(comm.device(), problem, halo.shard(problem.sequence), inputs);
  const auto plan = halo.plan(problem);
  const auto saved = plan->make_saved();
  const auto sent = [&](const auto& pass) {
    const comm::Traffic before = comm.traffic();
    pass();
    const comm::Traffic after = comm.traffic();
    return Traffic{after.bytes_sent - before.bytes_sent, after.messages_sent - before.messages_sent,
                   after.inter_node_bytes_sent - before.inter_node_bytes_sent};
  };
  const Traffic forward =
      sent([&] { plan->forward(tensors.inputs(), tensors.outputs(), saved.get()); });
  return {forward, sent([&] {
            plan->backward(tensors.inputs(), tensors.outputs(), *saved, tensors.d_out,
                           tensors.gradients());
          })};
}

TEST(HaloTest, CausesTheTrafficOfItsClosedForm) {
  for (const char* mask : kMasks) {
    for (const std::int64_t length : {5, 29, 64}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Shape shape = kShape;
        shape.dtype = dtype;
        Problem problem = make_problem(mask, length, shape);
        problem.sinks = length == 29;
        const OracleInputs inputs = random_inputs(problem, 1);
        for (const int ranks : rank_counts()) {
          const comm::LaunchOptions launch{.ranks = ranks, .ranks_per_node = 2, .deadline = 20};
          comm::test::launch(launch, [&](const comm::Communicator& comm) {
            const auto kernels = make_kernels("null", comm.device());
            const auto halo = make_halo(comm, *kernels);
            const auto [forward, backward] = traffic_of(comm, *halo, problem, inputs);
            const auto expected = [&](const auto& traffic) {
              return traffic("halo", ScheduleOptions{}, problem, comm.world(), comm.rank());
            };
            SCOPED_TRACE(concat("rank ", comm.rank(), " of ", ranks, ", ", describe(problem)));
            EXPECT_EQ(forward, expected([](auto&&... all) { return forward_traffic(all...); }));
            EXPECT_EQ(backward, expected([](auto&&... all) { return backward_traffic(all...); }));
          });
        }
      }
    }
  }
}

comm::World world(int ranks) { return {comm::even_places(ranks, 0)}; }

// A window of 20 keys before and 7 behind: a rank sends 20 tokens one way and 7 the other, however
// long its shard is, and gets as many gradients back.
TEST(HaloTest, MovesTheWindowAndNotTheShard) {
  for (const std::int64_t length : {4 * 64, 4 * 4096, 4 * (1 << 20)}) {
    const Problem problem = make_problem("window:20:7", length, kShape);
    EXPECT_EQ(forward_traffic("halo", {}, problem, world(4), 1), (Traffic{27 * kTokenBytes, 2}));
    EXPECT_EQ(forward_traffic("halo", {}, problem, world(4), 0), (Traffic{20 * kTokenBytes, 1}));
    EXPECT_EQ(backward_traffic("halo", {}, problem, world(4), 1), (Traffic{27 * kTokenBytes, 2}));
    EXPECT_EQ(backward_traffic("halo", {}, problem, world(4), 0), (Traffic{7 * kTokenBytes, 1}));
  }
}

// Shards of 8 tokens: 20 keys before the first of rank 4 are all of ranks 2 and 3 and half of 1.
TEST(HaloTest, ReachesAsFarAsTheWindowDoes) {
  const Problem problem = make_problem("window:20", 64, kShape);
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(8), 1),
            (Traffic{(8 + 8 + 4) * kTokenBytes, 3}));
  EXPECT_EQ(backward_traffic("halo", {}, problem, world(8), 4), (Traffic{20 * kTokenBytes, 3}));
  EXPECT_EQ(backward_traffic("halo", {}, problem, world(8), 0), Traffic{});
}

TEST(HaloTest, TakesABoundOf64Bits) {
  const Problem problem = make_problem("window:0:9223372036854775807", 32, kShape);
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(2), 1), (Traffic{16 * kTokenBytes, 1}));
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(2), 0), Traffic{});
}

// Ranks 0 and 1 of two share a document of 10 tokens, 6 of them on rank 0.
TEST(HaloTest, StopsAtTheDocument) {
  Problem problem = make_problem("window:20", 32, kShape);
  problem.sequence.documents = {10, 10, 9};
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(2), 0), (Traffic{16 * kTokenBytes, 1}));
  problem.mask.documents = true;
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(2), 0), (Traffic{6 * kTokenBytes, 1}));
  problem.sequence.documents = {10, 6, 9};
  EXPECT_EQ(forward_traffic("halo", {}, problem, world(2), 0), Traffic{});
}

TEST(HaloTest, MasksWithoutAWindowAreRefusedOnEveryRank) {
  for (const char* mask : {"full", "causal", "documents+causal"}) {
    const Problem problem = make_problem(mask, 16, kShape);
    comm::test::launch({.ranks = 3, .deadline = 5}, [&](const comm::Communicator& comm) {
      const auto kernels = make_kernels("reference", comm.device());
      try {
        (void)make_halo(comm, *kernels)->plan(problem);
        ADD_FAILURE() << "nothing was refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr(name(problem.mask)), HasSubstr("window:LEFT[:RIGHT]"),
                          HasSubstr("choose ring")));
      }
    });
    EXPECT_THROW(forward_traffic("halo", {}, problem, world(3), 0), Error);
  }
}

TEST(HaloTest, GoesInsideUlysses) {
  const Problem problem = make_problem("window:9:2", 29, kShape);
  const OracleInputs inputs = random_inputs(problem, 1);
  const OracleResults expected = oracle(problem, inputs);
  EXPECT_TRUE(
      comm::test::on_every_rank({.ranks = 4, .deadline = 5}, [&](const comm::Communicator& comm) {
        const auto kernels = make_kernels("cpu", comm.device());
        const comm::Communicator low = comm.split(comm.rank() / 2, 0);
        auto halo = make_halo(comm.split(comm.rank() % 2, 0), *kernels);
        const auto schedule =
            make_ulysses(low, *kernels, std::move(halo), comm::AllToAllAlgorithm::direct);
        return matches(run_rank(*schedule, comm, problem, inputs), expected, problem);
      }));
}

}  // namespace halo_test
}  // namespace ringspan::attention
