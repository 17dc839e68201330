// SPDX-License-Identifier: Apache-2.0
// The kernels of attention for GPUs, alone and under schedules, on the emulated driver.
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "attention/kernels/cuda/attention_launch.hpp"
#include "comm/devices/cuda/graph.hpp"
#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/local_case.hpp"
#include "tests/attention/schedule_run.hpp"

namespace ringspan::attention {
namespace {

constexpr DType bf16 = DType::bf16, f16 = DType::f16, f32 = DType::f32, f64 = DType::f64;

std::vector<LocalCase> cases() {
  return {
      {"one_token", 1, {1, 2, 1, 6, 6, bf16}, "causal"},
      {"narrow", 19, {2, 2, 1, 6, 10, f16}, "causal"},
      {"head_dim_72", 12, {1, 2, 1, 72, 40, bf16}, "window:5:3", 2.0},
      {"head_dim_264", 20, {1, 2, 1, 264, 8, bf16}, "causal"},
      {"fp32", 50, {2, 4, 2, 24, 40, f32}, "window:20:3", 2.5},
      {"fp64", 33, {1, 2, 2, 7, 5, f64}, "causal"},
      {"sinks", 10, {2, 2, 1, 16, 16, bf16}, "causal", {}, 1, {}, {}, true},
  };
}

/// More than one block of threads: what an emulator takes long for.
std::vector<LocalCase> larger_cases() {
  return {
      {"two_blocks", 130, {1, 1, 1, 64, 64, bf16}, "causal"},
      {"full_fp16", 70, {2, 1, 1, 64, 72, f16}, "full"},
      {"head_dim_72", 67, {1, 2, 1, 72, 72, bf16}, "window:20:3"},
      {"head_dim_128", 66, {1, 2, 2, 128, 64, f16}, "causal", 2.0},
      {"value_dim_128", 45, {1, 3, 1, 33, 128, bf16}, "full", 3.0},
      {"head_dim_256", 66, {1, 1, 1, 256, 160, bf16}, "causal"},
      {"striped", 91, {1, 4, 1, 16, 24, bf16}, "causal", {}, 3, LayoutKind::striped},
      {"documents",
       120,
       {1, 2, 1, 24, 16, f16},
       "documents+causal+window:40",
       {},
       2,
       LayoutKind::zigzag,
       {1, 1, 50, 0, 7, 1, 30, 20}},
  };
}

class CudaAttentionTest : public testing::TestWithParam<LocalCase> {};

INSTANTIATE_TEST_SUITE_P(Cases, CudaAttentionTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Soak, CudaAttentionTest, testing::ValuesIn(larger_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CudaAttentionTest, MatchesTheOracle) {
  const Problem problem = GetParam().problem();
  const OracleInputs inputs = random_inputs(problem, 1);
  expect_close(attend("cuda", problem, inputs, GetParam().key_blocks(problem)),
               oracle(problem, inputs), problem);
}

TEST(CudaAttentionRepeatTest, GivesTheSameBitsEveryTime) {
  const LocalCase c{"", 24, {1, 2, 1, 20, 24, bf16}, "causal", {}, 2, LayoutKind::zigzag, {}, true};
  const Problem problem = c.problem();
  const OracleInputs inputs = random_inputs(problem, 2);
  const KeyBlocks blocks = c.key_blocks(problem);
  expect_same(attend("cuda", problem, inputs, blocks), attend("cuda", problem, inputs, blocks));
}

TEST(CudaAttentionLogitsTest, NoWeightIsAbove1HoweverLargeTheyAre) {
  for (const DType dtype : {bf16, f32}) {
    for (const double scale : {1e7, 1e9, 1e30}) {
      Problem problem = LocalCase{"", 20, {1, 2, 1, 6, 10, dtype}, "causal"}.problem();
      problem.softmax_scale = scale;
      problem.sinks = true;
      OracleInputs inputs = random_inputs(problem, 5);
      inputs.sinks[1] = static_cast<float>(1.2345678 * scale);
      const LocalResults results = attend("cuda", problem, inputs, one_key_block(problem));
      expect_bounded(results.dq, results.dk, results.dv, results.d_sinks, inputs);
    }
  }
}

TEST(CudaAttentionRefusalTest, SaysWhatItNeeds) {
  const auto host = device_for("cpu"), gpu = device_for("cuda");
  EXPECT_THAT([&] { make_kernels("cuda", *host); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("runs on a GPU")));
  EXPECT_THAT([&] { make_kernels("cuda", *gpu)->prepare({.reproducible = true}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("no reproducible sums")));
  const auto prepare = [&](const Shape& shape) { make_kernels("cuda", *gpu)->prepare(shape); };
  const auto refused = testing::ThrowsMessage<Error>(testing::HasSubstr("65535 heads"));
  EXPECT_THAT([&] { prepare({.heads = 65536, .dtype = bf16}); }, refused);
  EXPECT_THAT([&] { prepare({.batch = 65536, .dtype = f16}); }, refused);
  EXPECT_THAT([&] { prepare({.batch = 32768, .head_dim = 129, .dtype = bf16}); }, refused);
  prepare({.batch = 65535, .heads = 65535, .dtype = bf16});
  prepare({.batch = 65536, .heads = 65536, .dtype = f32});  // plain kernels count rows
  EXPECT_EQ(cuda::kernel_dim(DType::f32, 64, 64), 0);
  EXPECT_EQ(cuda::kernel_dim(DType::bf16, 64, 65), 128);
  EXPECT_EQ(cuda::kernel_dim(DType::f16, 257, 64), 0);
}

// By which a sweep judges them, too.
TEST(CudaAttentionRoundingTest, WeightsAreRoundedWhereTensorCoresMultiplyThem) {
  const auto gpu = device_for("cuda"), host = device_for("cpu");
  const auto kernels = make_kernels("cuda", *gpu);
  EXPECT_TRUE(kernels->rounds_weights({.head_dim = 256, .value_dim = 8, .dtype = bf16}));
  EXPECT_FALSE(kernels->rounds_weights({.head_dim = 264, .value_dim = 8, .dtype = bf16}));
  EXPECT_FALSE(kernels->rounds_weights({.dtype = f32}));
  EXPECT_FALSE(make_kernels("cpu", *host)->rounds_weights({.dtype = bf16}));
}

/// On a real GPU tests look at what they launch by RINGSPAN_TEST_REACHABLE.
comm::LaunchOptions launch_options(int ranks) {
  comm::LaunchOptions options{.ranks = ranks, .deadline = 20};
  options.debug.reachable = std::getenv("RINGSPAN_TEST_REACHABLE") != nullptr;
  return options;
}

/// Why so many ranks cannot meet there; empty if they can.
std::string missing(const std::string& transport, int ranks) {
  const std::string reason = comm::backend(transport).unavailable();
  if (!reason.empty()) return reason;
  const int gpus = comm::cuda::device_count(*comm::cuda::load_cuda());
  if (gpus < ranks)
    return ::ringspan::concat(ranks, " ranks that are threads on ", gpus,
                              " GPU; they need one each");
  return {};
}

/// Over every transport for GPUs, in the order of their streams, without a wait but at the end.
class CudaScheduleTest : public testing::TestWithParam<std::string> {
 protected:
  static testing::AssertionResult matches_oracle(const NamedSchedule& schedule,
                                                 const Problem& problem, int ranks) {
    const OracleInputs inputs = random_inputs(problem, 3);
    const OracleResults expected = oracle(problem, inputs);
    std::vector<testing::AssertionResult> results(ranks, testing::AssertionSuccess());
    comm::launch(GetParam(), launch_options(ranks), [&](const auto& comm) {
      const auto kernels = make_kernels("cuda", comm.device());
      const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
      const RankTensors tensors(comm.device(), problem, made->shard(problem.sequence), inputs);
      run_rank(*made, problem, tensors);
      comm.device().synchronize(20);
      results[comm.rank()] =
          matches(tensors, expected, problem, false, weight_factor(problem.shape.dtype));
    });
    for (const auto& result : results) {
      if (!result) return result;
    }
    return testing::AssertionSuccess();
  }
};

#ifdef RINGSPAN_SANITIZED  // which makes them slow
INSTANTIATE_TEST_SUITE_P(Transports, CudaScheduleTest, testing::Values("nccl"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Soak, CudaScheduleTest, testing::Values("cuda_ipc"),
                         [](const auto& info) { return info.param; });
#else
INSTANTIATE_TEST_SUITE_P(Transports, CudaScheduleTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& info) { return info.param; });
#endif

TEST_P(CudaScheduleTest, TensorCoresMatchTheOracle) {
  const std::string reason = missing(GetParam(), 2);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Shape shape{.heads = 2, .kv_heads = 1, .head_dim = 6, .value_dim = 10, .dtype = bf16};
  EXPECT_TRUE(matches_oracle({"zigzag"}, make_problem("causal", 13, shape), 2));
}

TEST_P(CudaScheduleTest, PlainKernelsMatchTheOracle) {
  const std::string reason = missing(GetParam(), 3);
  if (!reason.empty()) GTEST_SKIP() << reason;
  Problem problem = make_problem(
      "window:7:3", 29,
      {.batch = 2, .heads = 6, .kv_heads = 3, .head_dim = 24, .value_dim = 16, .dtype = f32});
  problem.sinks = true;
  for (const NamedSchedule& schedule : every_schedule(3, problem.mask)) {
    if (schedule.name == "ring_self_attention") continue;  // needs kernels with scores()
    EXPECT_TRUE(matches_oracle(schedule, problem, 3)) << describe(schedule);
  }
}

/// The forward pass of a plan without messages.
TEST(CudaGraphTest, APlansForwardGivesTheBitsOfAnOrdinaryOne) {
  const std::string reason = missing("nccl", 1);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Problem problem = make_problem(
      "causal", 40, {.heads = 2, .head_dim = 16, .value_dim = 8, .dtype = DType::bf16});
  const OracleInputs inputs = random_inputs(problem, 4);
  comm::launch("nccl", launch_options(1), [&](const comm::Communicator& comm) {
    auto& device = dynamic_cast<comm::cuda::CudaDevice&>(comm.device());
    const auto kernels = make_kernels("cuda", device);
    const auto schedule = make_schedule("zigzag", comm, *kernels);
    const auto plan = schedule->plan(problem);
    const RankTensors tensors(device, problem, schedule->shard(problem.sequence), inputs);
    plan->forward(tensors.inputs(), tensors.outputs(), nullptr);
    device.synchronize(20);
    const Array out = read(tensors.out), lse = read(tensors.lse);
    comm::cuda::Graph graph(device,
                            [&] { plan->forward(tensors.inputs(), tensors.outputs(), nullptr); });
    tensors.forget_results();
    for (int launch = 0; launch < 2; ++launch) graph.launch();
    device.synchronize(20);
    EXPECT_TRUE(same_bits("out", read(tensors.out), out));
    EXPECT_TRUE(same_bits("lse", read(tensors.lse), lse));
  });
}

/// What a plan computes, by itself and then by launches of a graph, of the same two inputs.
void expect_same_by_a_graph(const NamedSchedule& schedule, const Problem& problem,
                            const comm::Communicator& comm) {
  auto& device = dynamic_cast<comm::cuda::CudaDevice&>(comm.device());
  const auto kernels = make_kernels("cuda", device);
  const auto made = make_schedule(schedule.name, comm, *kernels, schedule.options);
  const auto plan = made->plan(problem);
  const auto tensors_of = [&](unsigned seed) {
    return RankTensors(device, problem, made->shard(problem.sequence),
                       random_inputs(problem, seed));
  };
  const RankTensors tensors = tensors_of(0);
  const auto forward = [&] { plan->forward(tensors.inputs(), tensors.outputs(), nullptr); };
  std::optional<comm::cuda::Graph> graph;
  const auto of_input = [&](unsigned seed) {
    const RankTensors inputs = tensors_of(seed);
    for (const auto member : {&RankTensors::q, &RankTensors::k, &RankTensors::v})
      write(read(inputs.*member), tensors.*member);
    tensors.forget_results();
    graph ? graph->launch() : forward();
    device.synchronize(20);
    return std::pair(read(tensors.out), read(tensors.lse));
  };
  const auto first = of_input(4), second = of_input(5);
  EXPECT_FALSE(same_bits("out", first.first, second.first));
  graph.emplace(device, forward);
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& [seed, expected] : {std::pair(4, first), std::pair(5, second)}) {
      const auto actual = of_input(seed);
      EXPECT_TRUE(same_bits("out", actual.first, expected.first));
      EXPECT_TRUE(same_bits("lse", actual.second, expected.second));
    }
  }
}

TEST(CudaGraphTest, AForwardOfSeveralRanksGivesTheBitsOfAnOrdinaryOne) {
  const Problem problem = make_problem(
      "causal", 40, {.heads = 4, .kv_heads = 4, .head_dim = 16, .value_dim = 8, .dtype = f32});
  const std::string reason = missing("nccl", 2);
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const int ranks : {2, 4}) {
    if (!missing("nccl", ranks).empty()) break;
    for (const NamedSchedule& schedule :
         {NamedSchedule{"zigzag"}, {"ulysses"}, {"usp", {.ulysses_degree = 2}}}) {
      SCOPED_TRACE(::ringspan::concat(describe(schedule), " on ", ranks, " ranks"));
      comm::launch("nccl", launch_options(ranks), [&](const comm::Communicator& comm) {
        expect_same_by_a_graph(schedule, problem, comm);
      });
    }
  }
}

TEST(CudaGraphTest, CudaIpcRefusesMessages) {
  const std::string reason = missing("cuda_ipc", 2);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Problem problem = make_problem("causal", 4, {.head_dim = 2, .value_dim = 2});
  const OracleInputs inputs = random_inputs(problem, 4);
  comm::launch("cuda_ipc", launch_options(2), [&](const comm::Communicator& comm) {
    auto& device = dynamic_cast<comm::cuda::CudaDevice&>(comm.device());
    const auto kernels = make_kernels("cuda", device);
    const auto schedule = make_schedule("ring", comm, *kernels);
    const auto plan = schedule->plan(problem);
    const RankTensors tensors(device, problem, schedule->shard(problem.sequence), inputs);
    EXPECT_THAT(
        [&] {
          comm::cuda::Graph(device,
                            [&] { plan->forward(tensors.inputs(), tensors.outputs(), nullptr); });
        },
        testing::ThrowsMessage<Error>(testing::HasSubstr("cannot be part of a graph")));
  });
}

}  // namespace
}  // namespace ringspan::attention
