// SPDX-License-Identifier: Apache-2.0
// What becomes of a sweep whose processes are ended, killed or stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "comm/launch.hpp"
#include "tests/bench/mpirun_command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;

class CliLostProcessesTest : public MpirunCommandTest {
 protected:
  /// A sweep whose second point takes too long to be waited for, once its first row is there.
  pid_t start_long_sweep(const std::string& transport, int ranks = 3) {
    use(ranks);
    const pid_t child = start({"sweep",
                               "--transport",
                               transport,
                               "--kernel",
                               "reference",
                               "--schedule",
                               "ring",
                               "--ranks",
                               std::to_string(ranks),
                               "--seq",
                               "16,8192",
                               "--heads",
                               "1",
                               "--head-dim",
                               "8",
                               "--warmup",
                               "0",
                               "--repeats",
                               "100",
                               "--point-timeout",
                               "40",
                               "--deadline",
                               "1",
                               "--csv",
                               path("a.csv")});
    wait_until([this] { return text("a.csv").find(",ok\n") != std::string::npos; });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // into the long point
    return child;
  }

  template <typename Condition>
  static void wait_until(const Condition& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
};

class StoppedRankTest : public CliLostProcessesTest,
                        public testing::WithParamInterface<std::string_view> {};

std::vector<std::string_view> between_processes() {
  std::vector<std::string_view> names;
  for (const comm::Backend& backend : comm::backends())
    if (backend.process && backend.world == "host") names.push_back(backend.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Transports, StoppedRankTest, testing::ValuesIn(between_processes()),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(CliLostProcessesTest, ASignalToAnyOfThemKeepsFinishedRows) {
  for (const int rank : {0, 2}) {
    const pid_t child = start_long_sweep("mpi");
    const std::vector<pid_t> target = processes(rank);
    ASSERT_EQ(target.size(), 1u);
    kill(target[0], SIGTERM);
    const Outcome outcome = finish(child);
    EXPECT_EQ(outcome.status, 130) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("interrupted; finished rows are kept"));
    EXPECT_EQ(read_csv(path("a.csv")).size(), 1u);
    std::filesystem::remove(path("a.csv"));
  }
}

TEST_F(CliLostProcessesTest, AKilledRankEndsTheSweepAndKeepsFinishedRows) {
  const pid_t child = start_long_sweep("mpi");
  const std::vector<pid_t> target = processes(2);
  ASSERT_EQ(target.size(), 1u);
  kill(target[0], SIGKILL);
  EXPECT_NE(finish(child).status, 0);
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_GE(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("status")], "ok");
}

TEST_P(StoppedRankTest, IsNamed) {
  const pid_t child = start_long_sweep(std::string(GetParam()), 5);
  const std::vector<pid_t> target = processes(1);
  ASSERT_EQ(target.size(), 1u);
  kill(target[0], SIGSTOP);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1"));
  EXPECT_THAT(outcome.err, HasSubstr("the sweep ends, finished rows are kept"));
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][column("status")], "ok");
  EXPECT_THAT(rows[1][column("status")], HasSubstr("rank 1"));
}

}  // namespace
}  // namespace ringspan::bench
