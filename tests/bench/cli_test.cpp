// SPDX-License-Identifier: Apache-2.0
// The command as its users meet it: a process, its exit status, what it prints, the file it leaves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out, err;
};

class CliTest : public testing::Test {
 protected:
  CliTest() { std::filesystem::create_directory(folder_); }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }

  pid_t start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), RINGSPAN_COMMAND);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, 1, path("out").c_str(), kCreate, 0600);
    posix_spawn_file_actions_addopen(&files, 2, path("err").c_str(), kCreate, 0600);
    pid_t child = -1;
    EXPECT_EQ(posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return child;
  }

  Outcome finish(pid_t child) const {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out"), text("err")};
  }

  Outcome run(const std::vector<std::string>& arguments) const { return finish(start(arguments)); }

  /// `sweep` of a few tokens, with more arguments.
  Outcome tiny(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"sweep",   "--repeats", "1",          "--warmup", "0",
                                       "--heads", "2",         "--head-dim", "8"};
    if (std::find(more.begin(), more.end(), "--seq") == more.end()) {
      arguments.insert(arguments.end(), {"--seq", "64"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  /// Status 2, nothing on standard output, one line on standard error that holds `expected`.
  void expect_refused(const std::vector<std::string>& arguments,
                      const std::string& expected) const {
    const Outcome outcome = run(arguments);
    SCOPED_TRACE(testing::PrintToString(arguments));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("ringspan: "), HasSubstr(expected), EndsWith("\n")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("ringspan_cli_test_", getpid());
};

TEST_F(CliTest, RefusesBadInputInOneLine) {
  expect_refused({}, "known are sweep, info");
  expect_refused({"plan"}, "unknown command 'plan'; known are sweep, info");
  expect_refused({"info", "--all"}, "unknown option '--all'; known are --peak, --json");
  expect_refused({"sweep", "--rank", "2"}, "unknown option '--rank'; known are --transport");
  expect_refused({"sweep", "again"}, "unknown option 'again'");
  expect_refused({"sweep", "--ranks"}, "--ranks");
  expect_refused({"sweep", "--ranks", "1", "--ranks", "2"}, "--ranks: give it once");
  expect_refused({"sweep", "--ranks", "1,"}, "--ranks: '1,' has an empty item");
  expect_refused({"sweep", "--ranks", "0"}, "--ranks: 0 is too small; the least is 1");
  expect_refused({"sweep", "--ranks", "100000"}, "--ranks: 100000 is too large");
  expect_refused({"sweep", "--seq", "-4096"}, "--seq: -4096 is too small");
  expect_refused({"sweep", "--seq", "64", "--tokens-per-rank", "64"}, "in place of --seq");
  expect_refused({"sweep", "--model", "llama3-8b", "--heads", "2"}, "in place of --heads");
  expect_refused({"sweep", "--model", "gpt5"}, "known are llama2-7b");
  expect_refused({"sweep", "--schedule", "rings"}, "known are ring, striped");
  expect_refused({"sweep", "--transport", "mpi"}, "unknown value 'mpi'; known are threads");
  expect_refused({"sweep", "--cluster", "h100"}, "--cluster: ");
  expect_refused({"sweep", "--device", "cuda"}, "known are host");
  expect_refused({"sweep", "--kernel", "gpu"}, "known are reference, cpu, null");
  expect_refused({"sweep", "--inner-ring", "2"}, "double_ring");
  expect_refused({"sweep", "--backward", "q"}, "--backward: q is not built");
  expect_refused({"sweep", "--mask", "casual"}, "--mask: unknown mask part 'casual'");
  expect_refused({"sweep", "--dtype", "int8"}, "known are fp32");
  expect_refused({"sweep", "--repeats", "0"}, "--repeats");
  expect_refused({"sweep", "--softcap", "0"}, "--softcap");
  expect_refused({"sweep", "--point-timeout", "soon"}, "--point-timeout: 'soon' is not a number");
  expect_refused({"sweep", "--schedule", "ring", "--ulysses-degree", "2"}, "none of the schedules");
}

TEST_F(CliTest, ASweepWithoutALegalPointIsBadInput) {
  expect_refused({"sweep", "--mask", "documents:600,500", "--csv", path("a.csv")}, "document");
  expect_refused({"sweep", "--schedule", "usp", "--ranks", "4", "--ulysses-degree", "3", "--csv",
                  path("a.csv")},
                 "ulysses_degree");
  expect_refused({"sweep", "--seq", "1Gi", "--heads", "128", "--csv", path("a.csv")},
                 "inputs and outputs take 131072 GiB; this machine has ");
  expect_refused({"sweep", "--heads", "8", "--kv-heads", "3", "--csv", path("a.csv")}, "kv_heads");
  EXPECT_FALSE(std::filesystem::exists(path("a.csv")));
}

TEST_F(CliTest, RefusesBadFilesBeforeMeasuring) {
  expect_refused({"sweep", "--csv", "/nonexistent/a.csv"}, "cannot write /nonexistent/a.csv");
  expect_refused({"sweep", "--csv", folder_}, "is not a regular file");
  expect_refused({"sweep", "--csv", ""}, "--csv: the file name is empty");
  expect_refused({"sweep", "--resume"}, "--resume: names no file");
  write("columns.csv", "a,b\n1,2\n");
  expect_refused({"sweep", "--csv", path("columns.csv")}, "exists; continue it with --resume");
  expect_refused({"sweep", "--csv", path("columns.csv"), "--resume"}, "column 1 is 'a'");
  EXPECT_EQ(text("columns.csv"), "a,b\n1,2\n");
  expect_refused({"sweep", "--config", path("none.toml")}, "cannot read");
  write("broken.toml", "seq = 64\nranks = [1, 2\nheads = 2\n");
  expect_refused({"sweep", "--config", path("broken.toml")}, "broken.toml, line 3: ");
  write("unknown.toml", "seq = 64\nrank = 2\n");
  expect_refused({"sweep", "--config", path("unknown.toml")}, "line 2: unknown option 'rank'");
  write("value.toml", "\ncheck = \"yes\"\n");
  expect_refused({"sweep", "--config", path("value.toml")}, "line 2: 'check' is true or false");
  write("date.toml", "seq = 2024-01-01\n");
  expect_refused({"sweep", "--config", path("date.toml")}, "line 1: a value is a string");
}

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

  write("b.csv", all.substr(0, all.find('\n') + 1));  // a header without rows
  EXPECT_EQ(tiny({"--schedule", "ring", "--csv", path("b.csv"), "--resume"}).status, 0);
  EXPECT_EQ(read_csv(path("b.csv")).size(), 2u);

  write("a.csv", all + "Intel,half a li");  // as a crash would leave it
  expect_refused({"sweep", "--csv", path("a.csv"), "--resume"}, "line 6: 2 fields and no line end");
}

TEST_F(CliTest, ConfigurationFilesGiveWhatTheCommandLineDoesNot) {
  write("sweep.toml",
        "schedule = [\"ring\", \"zigzag\"]\nranks = 2\nseq = \"32:64:x2\"\n"
        "heads = 2\nrepeats = 1\ncheck = true\nresume = false\nsoftcap = 30.5\n");
  const Outcome outcome = run(
      {"sweep", "--config", path("sweep.toml"), "--schedule", "ulysses", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][column("schedule")], "ulysses");
  EXPECT_EQ(rows[1][column("ranks")], "2");
  EXPECT_EQ(rows[1][column("sequence_length")], "64");
  EXPECT_NE(rows[1][column("max_abs_error")], "");
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

TEST_F(CliTest, InfoAndHelpSayWhatThereIs) {
  const Outcome info = run({"info"});
  EXPECT_EQ(info.status, 0);
  for (const char* part :
       {"cores", "threads", "reference", "zigzag", "usp", "llama3-405b", "RINGSPAN_TIMEOUT_S"}) {
    EXPECT_THAT(info.out, HasSubstr(part));
  }
  const Outcome json = run({"info", "--json"});
  EXPECT_THAT(json.out, AllOf(StartsWith("{\n"), HasSubstr("\"cores\": "), EndsWith("}\n")));
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("sweep"), HasSubstr("info")));
  EXPECT_THAT(run({"sweep", "--help"}).out, HasSubstr("--ulysses-degree"));
  EXPECT_THAT(run({"--version"}).out, StartsWith("ringspan "));
}

}  // namespace
}  // namespace ringspan::bench
