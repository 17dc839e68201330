// SPDX-License-Identifier: Apache-2.0
// The command as its users meet it: a process, its exit status, what it prints, the file it leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "bench/rows/csv_reporter.hpp"
#include "comm/launch.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CliTest : public CommandTest {};

TEST_F(CliTest, WritesARowPerPoint) {
  const Outcome outcome = tiny({"--check", "--pass", "forward,both", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("nothing is hidden by nature"));
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 24u);  // six schedules on one and two ranks
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")], "ok");
    for (const char* name : {"machine", "commit", "median_s", "tflops_per_rank", "max_abs_error",
                             "strong_efficiency", "peak_bytes_per_rank"}) {
      EXPECT_NE(row[column(name)], "") << name;
    }
    EXPECT_EQ(row[column("bytes_sent_per_rank")] == "0", row[column("ranks")] == "1");
  }
}

TEST_F(CliTest, IllegalPointsAreRowsWithTheirRule) {
  const Outcome outcome = tiny(
      {"--schedule", "usp", "--ranks", "4", "--ulysses-degree", "3,2", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0][column("status")], HasSubstr("does not divide"));
  EXPECT_EQ(rows[0][column("median_s")], "");
  EXPECT_EQ(rows[1][column("status")], "ok");
}

TEST_F(CliTest, ResumeMeasuresOnlyWhatIsMissing) {
  EXPECT_EQ(tiny({"--schedule", "ring", "--csv", path("a.csv")}).status, 0);
  const std::string before = text("a.csv");
  EXPECT_EQ(tiny({"--schedule", "ring,zigzag", "--csv", path("a.csv"), "--resume"}).status, 0);
  EXPECT_THAT(text("a.csv"), StartsWith(before));
  EXPECT_EQ(read_csv(path("a.csv")).size(), 4u);
  const std::string all = text("a.csv");
  const Outcome nothing = tiny({"--schedule", "ring", "--csv", path("a.csv"), "--resume"});
  EXPECT_EQ(nothing.status, 0);
  EXPECT_THAT(nothing.err, HasSubstr("already holds every point"));
  EXPECT_EQ(text("a.csv"), all);

  for (Cells& row : read_csv(path("a.csv"))) {
    row[column("machine")] = "another";
    CsvReporter(path("c.csv")).append(row);
  }
  const Outcome elsewhere = tiny({"--schedule", "ring", "--csv", path("c.csv"), "--resume"});
  EXPECT_EQ(elsewhere.status, 0);
  EXPECT_THAT(elsewhere.err, HasSubstr("c.csv holds 2 of these points from another machine"));

  write("b.csv", all.substr(0, all.find('\n') + 1));  // a header without rows
  EXPECT_EQ(tiny({"--schedule", "ring", "--csv", path("b.csv"), "--resume"}).status, 0);
  EXPECT_EQ(read_csv(path("b.csv")).size(), 2u);

  write("a.csv", all + "Intel,half a li");  // as a crash would leave it
  expect_refused({"sweep", "--csv", path("a.csv"), "--resume"}, "line 6: 2 fields and no line end");
}

TEST_F(CliTest, APointThatTakesTooLongIsARow) {
  const Outcome outcome =
      tiny({"--kernel", "reference", "--schedule", "ring,ulysses", "--ranks", "2", "--seq",
            "64,16384", "--point-timeout", "0.3", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  for (const Cells& row : rows) {
    const bool small = row[column("sequence_length")] == "64";
    EXPECT_THAT(row[column("status")], HasSubstr(small ? "ok" : "--point-timeout 0.3 s"));
    EXPECT_EQ(row[column("median_s")] == "", !small);
  }
}

TEST_F(CliTest, ARankWithoutProgressIsAFailure) {
  // Every sequence's one token is rank 0's, and inputs take longer to make up than rank 1 waits.
  const Outcome outcome = run({"sweep", "--schedule", "ring", "--ranks", "2", "--seq", "1",
                               "--batch", "2000000", "--heads", "1", "--head-dim", "8", "--kernel",
                               "reference", "--deadline", "0.001", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("median_s")], "");
  EXPECT_THAT(rows[0][column("status")], HasSubstr("rank 0 makes no progress"));
}

TEST_F(CliTest, CtrlCKeepsFinishedRows) {
  using Clock = std::chrono::steady_clock;
  const pid_t child =
      start({"sweep", "--kernel", "reference", "--schedule", "ring", "--seq", "16,65536", "--heads",
             "1", "--head-dim", "8", "--repeats", "1", "--csv", path("a.csv")});
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
  while (text("a.csv").find(",ok\n") == std::string::npos && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // into the long point
  const Clock::time_point interrupted = Clock::now();
  kill(child, SIGINT);
  const Outcome outcome = finish(child);
  EXPECT_LT(Clock::now() - interrupted, std::chrono::seconds(5));
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted; finished rows are kept"));
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("status")], "ok");
}

TEST_F(CliTest, NobodyWhoReadsIsNoReasonToDie) {
  launcher_ = {"/bin/sh", "-c", R"({ sleep 0.2; "$@"; echo "status $?" >&2; } | true)", "sh"};
  const Outcome outcome = run({"info"});
  EXPECT_TRUE(outcome.err.ends_with("status 0\n") || outcome.err.ends_with("status 1\n"))
      << outcome.err;
}

TEST_F(CliTest, SaysWhatCheckDidNotCompare) {
  const auto checked = [&](const char* pass, const char* tokens) {
    const Outcome outcome = tiny({"--schedule", "ring", "--ranks", "2", "--check", "--pass", pass,
                                  "--mask", "full", "--seq", tokens});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(checked("both", "2100"), HasSubstr("no single key"));
  EXPECT_THAT(checked("both", "64"), Not(HasSubstr("no single key")));
  EXPECT_THAT(checked("forward", "2100"), Not(HasSubstr("no single key")));
}

TEST_F(CliTest, TheAutomaticAllToAllIsHeldAgainstTheDirectOne) {
  const Outcome outcome = tiny({"--schedule", "usp,ulysses", "--ranks", "2", "--pass", "both",
                                "--all-to-all", "direct,automatic", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")], "ok");
    EXPECT_EQ(row[column("bytes_sent_per_rank")], rows[0][column("bytes_sent_per_rank")]);
  }
}

TEST_F(CliTest, NullKernelsMeasureMessagesOnly) {
  EXPECT_EQ(tiny({"--kernel", "null", "--check", "--csv", path("a.csv")}).status, 0);
  for (const Cells& row : read_csv(path("a.csv"))) {
    EXPECT_EQ(row[column("status")], "ok");
    EXPECT_EQ(row[column("tflops_per_rank")], "");
    EXPECT_EQ(row[column("strong_efficiency")], "");
    EXPECT_EQ(row[column("max_abs_error")], "");
  }
}

TEST_F(CliTest, TokensPerRankGiveWeakScaling) {
  EXPECT_EQ(tiny({"--tokens-per-rank", "48", "--ranks", "1,3", "--schedule", "striped", "--csv",
                  path("a.csv"), "--seq"})
                .status,
            2);  // --seq without a value
  EXPECT_EQ(run({"sweep", "--repeats", "1", "--tokens-per-rank", "48", "--ranks", "3,1",
                 "--schedule", "striped", "--csv", path("a.csv")})
                .status,
            0);
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][column("sequence_length")], "144");
  EXPECT_NE(rows[1][column("weak_efficiency")], "");
  EXPECT_EQ(rows[1][column("strong_efficiency")], "");
}

/// Finds the emulated driver and NCCL, with so many GPUs.
class GpuCliTest : public CommandTest {
 protected:
  void emulate(int gpus) {
    launcher_ = {"/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES",
                 "LD_LIBRARY_PATH=" RINGSPAN_EMULATION, concat("RINGSPAN_EMULATED_GPUS=", gpus)};
  }
};

// Whatever was measured there must not look like the figure of a GPU.
TEST_F(GpuCliTest, ASweepOfAnEmulatedGpuIsCheckedAndSaysWhatItRanOn) {
  emulate(2);
  const Outcome outcome =
      tiny({"--device", "cuda", "--transport", "nccl,cuda_ipc", "--schedule", "zigzag", "--ranks",
            "2", "--pass", "both", "--check", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")], "ok");
    EXPECT_EQ(row[column("machine")], "Emulated GPU (sm_90)");
    EXPECT_EQ(row[column("world")], "gpu");
    EXPECT_EQ(row[column("device")], "cuda");
    EXPECT_EQ(row[column("kernel")], "cuda");
    EXPECT_EQ(row[column("dtype")], "bf16");
    EXPECT_EQ(row[column("compute_slowdown")], "");  // the host only queues kernels
    EXPECT_NE(row[column("max_abs_error")], "");
  }
}

// More elements than are copied to a GPU at once.
TEST_F(GpuCliTest, PrimitivesLabelTheMemoryOfGpus) {
  emulate(3);
  const Outcome outcome =
      run({"primitives", "--transport", "nccl,cuda_ipc", "--ranks", "2,3", "--bytes", "4Ki,3Mi",
           "--repeats", "1", "--warmup", "0", "--format", "csv"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  int rows = 0;
  for (; std::getline(lines, line); ++rows) {
    EXPECT_THAT(line, testing::StartsWith("Emulated GPU (sm_90),"));
    EXPECT_THAT(line, testing::EndsWith(",0,ok"));
  }
  EXPECT_EQ(rows, 2 * 2 * (13 * 2 + 1)) << outcome.out;
}

TEST_F(GpuCliTest, ADeviceThatATransportDoesNotReachIsARowWithTheRule) {
  emulate(2);
  const Outcome outcome =
      tiny({"--device", "host,cuda", "--transport", "threads", "--kernel", "null", "--schedule",
            "ring", "--ranks", "1", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][column("status")], "ok");
  EXPECT_THAT(rows[1][column("status")], HasSubstr("those of GPUs are nccl and cuda_ipc"));
}

TEST_F(GpuCliTest, AProbeOfAnEmulatedGpuIsPrintedAndDescribesNoCluster) {
  emulate(2);
  const Outcome outcome = run({"probe", "--transport", "cuda_ipc"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 ranks, Emulated GPU"));
  EXPECT_THAT(outcome.out, HasSubstr("a short message to the next rank"));
  expect_refused({"probe", "--transport", "nccl", "--cluster", path("a.toml")},
                 "the speed of attention on 'Emulated GPU (sm_90)' is not known");
  emulate(1);
  const Outcome alone = run({"probe", "--transport", "cuda_ipc"});
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, AllOf(HasSubstr("1 rank, Emulated GPU"), Not(HasSubstr("message"))));
  EXPECT_FALSE(std::filesystem::exists(path("a.toml")));
}

TEST_F(GpuCliTest, TransportsBetweenProcessesTakeMemoryOfGpusToo) {
  emulate(1);
  for (const comm::Backend& backend : comm::backends()) {
    if (!backend.process || backend.world != "host") continue;
    const std::string name(backend.name);
    const Outcome outcome = tiny({"--device", "cuda", "--transport", name, "--schedule", "ulysses",
                                  "--ranks", "1", "--check", "--csv", path(name + ".csv")});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const std::vector<Cells> rows = read_csv(path(name + ".csv"));
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0][column("status")], "ok");
    EXPECT_EQ(rows[0][column("world")], "gpu");
    EXPECT_EQ(rows[0][column("kernel")], "cuda");
  }
}

TEST_F(GpuCliTest, WithoutAGpuOneLineSaysSo) {
  emulate(0);
  const Outcome sweep = tiny({"--device", "cuda", "--csv", path("a.csv")});
  EXPECT_EQ(sweep.status, 1);
  EXPECT_EQ(sweep.err, "ringspan: cuda: not available: no CUDA device\n");
  EXPECT_EQ(sweep.out, "");
  EXPECT_FALSE(std::filesystem::exists(path("a.csv")));
  const Outcome info = run({"info"});
  EXPECT_EQ(info.status, 0);
  EXPECT_THAT(info.out, testing::ContainsRegex("cuda +not available: no CUDA device; "));
  EXPECT_THAT(info.out, testing::ContainsRegex("nccl +not available: no CUDA device"));
}

TEST_F(GpuCliTest, WhatRunsOnTheHostAloneIsRefused) {
  emulate(2);
  expect_refused({"train", "--transport", "nccl"}, "layers of the model run on the host");
  expect_refused(
      {"trace", "--transport", "mpi", "--device", "cuda", "--ranks", "1", "-o", path("a.json")},
      "trace nccl or cuda_ipc");
  expect_refused({"sweep", "--transport", "nccl", "--kernel", "cpu", "--ranks", "1"},
                 "kernel 'cpu' runs on the host");
}

}  // namespace
}  // namespace ringspan::bench
