// SPDX-License-Identifier: Apache-2.0
// What the command makes of its arguments and files before it measures anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attention/schedule.hpp"
#include "bench/rows/csv_reader.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class CliInputTest : public CommandTest {};

TEST_F(CliInputTest, RefusesBadInputInOneLine) {
  expect_refused({},
                 "known are sweep, trace, primitives, plan, probe, train, validate, memory, info");
  expect_refused({"fly"},
                 "unknown command 'fly'; known are sweep, trace, primitives, plan, probe, train, "
                 "validate, memory, info");
  expect_refused({"info", "--all"}, "unknown option '--all'; known are --peak, --json");
  expect_refused({"sweep", "--rank", "2"}, "unknown option '--rank'; known are --transport");
  expect_refused({"sweep", "again"}, "unknown option 'again'");
  expect_refused({"sweep", "--ranks"}, "--ranks");
  expect_refused({"sweep", "--ranks", "1", "--ranks", "2"}, "--ranks: give it once");
  for (const char* flag : {"--check=false", "--check=5", "--sinks=no", "--resume=0"}) {
    const std::string given = flag;
    expect_refused({"sweep", given}, given.substr(0, given.find('=')) + ": takes no value");
  }
  expect_refused({"sweep", "--ranks", "1,"}, "--ranks: '1,' has an empty item");
  expect_refused({"sweep", "--ranks", "0"}, "--ranks: 0 is too small; the least is 1");
  expect_refused({"sweep", "--ranks", "100000"}, "--ranks: 100000 is too large");
  expect_refused({"sweep", "--seq", "-4096"}, "--seq: -4096 is too small");
  expect_refused({"sweep", "--seq", "64", "--tokens-per-rank", "64"}, "in place of --seq");
  expect_refused({"sweep", "--model", "llama3-8b", "--heads", "2"}, "in place of --heads");
  expect_refused({"sweep", "--model", "gpt5"}, "known are llama2-7b");
  expect_refused({"sweep", "--schedule", "rings"}, "known are ring, striped");
  expect_refused({"sweep", "--transport", "pigeon"}, "unknown value 'pigeon'; known are threads");
  expect_refused({"sweep", "--cluster", "h100"}, "--cluster: ");
  expect_refused({"sweep", "--device", "gpu"}, "known are host, cuda");
  expect_refused({"sweep", "--kernel", "gpu"},
                 "known are reference, reproducible, cpu, cuda, cudnn, null");
  expect_refused({"sweep", "--schedule", "ring", "--inner-ring", "2"},
                 "--inner-ring: none of the schedules");
  expect_refused({"sweep", "--schedule", "ulysses", "--backward", "q"},
                 "--backward: none of the schedules");
  expect_refused({"sweep", "--backward", "v"}, "kv, q, automatic");
  expect_refused({"sweep", "--mask", "casual"}, "--mask: unknown mask part 'casual'");
  expect_refused({"sweep", "--dtype", "int8"}, "known are fp32");
  expect_refused({"sweep", "--repeats", "0"}, "--repeats");
  expect_refused({"sweep", "--softcap", "0"}, "--softcap");
  expect_refused({"sweep", "--point-timeout", "soon"}, "--point-timeout: 'soon' is not a number");
  expect_refused({"sweep", "--schedule", "ring", "--ulysses-degree", "2"}, "none of the schedules");
}

TEST_F(CliInputTest, ASweepWithoutALegalPointIsBadInput) {
  expect_refused({"sweep", "--mask", "documents:600,500", "--csv", path("a.csv")}, "document");
  expect_refused({"sweep", "--schedule", "usp", "--ranks", "4", "--ulysses-degree", "3", "--csv",
                  path("a.csv")},
                 "ulysses_degree");
  expect_refused({"sweep", "--schedule", "usp", "--ranks", "4", "--ulysses-degree", "4294967298"},
                 "ulysses_degree of 4294967298 does not divide 4 ranks");
  expect_refused({"sweep", "--seq", "1Gi", "--heads", "128", "--csv", path("a.csv")},
                 " GiB on 1 rank; the machine has ");
  expect_refused({"sweep", "--heads", "8", "--kv-heads", "3", "--csv", path("a.csv")}, "kv_heads");
  expect_refused({"sweep", "--seq", "256Gi", "--mask", "documents:sampled"}, "the machine has");
  EXPECT_FALSE(std::filesystem::exists(path("a.csv")));
}

TEST_F(CliInputTest, RefusesBadFilesBeforeMeasuring) {
  expect_refused({"sweep", "--csv", "/nonexistent/a.csv"}, "cannot write /nonexistent/a.csv");
  expect_refused({"sweep", "--csv", folder_}, "is not a regular file");
  expect_refused({"sweep", "--csv", path(std::string(300, 'a'))}, "aaa: File name too long");
  std::filesystem::create_symlink(path("loop.csv"), path("loop.csv"));
  expect_refused({"sweep", "--csv", path("loop.csv")}, "loop.csv: Too many levels");
  expect_refused({"sweep", "--csv", ""}, "--csv: the file name is empty");
  expect_refused({"sweep", "--resume"}, "--resume: names no file");
  write("columns.csv", "a,b\n1,2\n");
  expect_refused({"sweep", "--csv", path("columns.csv")}, "exists; continue it with --resume");
  expect_refused({"sweep", "--csv", path("columns.csv"), "--resume"}, "column 1 is 'a'");
  EXPECT_EQ(text("columns.csv"), "a,b\n1,2\n");
  expect_refused({"sweep", "--config", path("none.toml")}, "cannot read");
  expect_refused({"sweep", "--config", folder_}, "cannot read " + folder_.string());
  write("broken.toml", "seq = 64\nranks = [1, 2\nheads = 2\n");
  expect_refused({"sweep", "--config", path("broken.toml")}, "broken.toml, line 3: ");
  write("unknown.toml", "seq = 64\nrank = 2\n");
  expect_refused({"sweep", "--config", path("unknown.toml")}, "line 2: unknown option 'rank'");
  write("value.toml", "\ncheck = \"yes\"\n");
  expect_refused({"sweep", "--config", path("value.toml")}, "line 2: 'check' is true or false");
  write("date.toml", "seq = 2024-01-01\n");
  expect_refused({"sweep", "--config", path("date.toml")}, "line 1: a value is a string");
}

TEST_F(CliInputTest, ConfigurationFilesGiveWhatTheCommandLineDoesNot) {
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

TEST_F(CliInputTest, InfoAndHelpSayWhatThereIs) {
  const Outcome info = run({"info"});
  EXPECT_EQ(info.status, 0);
  for (const char* part :
       {"cores", "threads", "reference", "zigzag", "usp", "llama3-405b", "RINGSPAN_TIMEOUT_S"}) {
    EXPECT_THAT(info.out, HasSubstr(part));
  }
  const Outcome json = run({"info", "--json"});
  EXPECT_THAT(json.out, AllOf(StartsWith("{\n"), HasSubstr("\"cores\": "), EndsWith("}\n")));
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("sweep"), HasSubstr("info")));
  const std::string help = run({"sweep", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--ulysses-degree"));
  for (const auto& entry : attention::schedules()) EXPECT_THAT(help, HasSubstr(entry.name));
  EXPECT_THAT(run({"--version"}).out,
              testing::MatchesRegex("ringspan [0-9]+\\.[0-9]+\\.[0-9]+, commit .+\n"));
}

}  // namespace
}  // namespace ringspan::bench
