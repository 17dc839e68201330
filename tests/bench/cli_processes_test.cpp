// SPDX-License-Identifier: Apache-2.0
// The command as several processes run it together, started by mpirun: one file, one voice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "comm/launch.hpp"
#include "tests/bench/mpirun_command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

int occurrences(const std::string& text, const std::string& of) {
  int count = 0;
  for (std::size_t at = text.find(of); at != text.npos; at = text.find(of, at + 1)) ++count;
  return count;
}

using CliProcessesTest = MpirunCommandTest;

TEST_F(CliProcessesTest, ThreadsAndProcessesShareAFile) {
  use(2);
  std::string transports = "threads";
  for (const comm::Backend& backend : comm::backends()) {
    if (backend.process) transports += concat(',', backend.name);
  }
  const Outcome outcome =
      tiny({"--transport", transports, "--schedule", "zigzag,ulysses", "--ranks", "1,2", "--pass",
            "both", "--check", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u * (1 + std::count(transports.begin(), transports.end(), ',')));
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")], "ok");
    EXPECT_EQ(row[column("world")], "host");
    EXPECT_EQ(row[column("machine")], rows[0][column("machine")]);
    EXPECT_EQ(row[column("hop")], "copy");
    EXPECT_EQ(row[column("ranks_per_node")], row[column("ranks")]);
    EXPECT_EQ(row[column("inter_node_bytes_per_rank")], "0");
    for (const char* name : {"median_s", "max_abs_error", "strong_efficiency"}) {
      EXPECT_NE(row[column(name)], "") << name;
    }
    EXPECT_EQ(row[column("bytes_sent_per_rank")] == "0", row[column("ranks")] == "1");
  }
}

TEST_F(CliProcessesTest, PretendedNodesCountTheirBytes) {
  use(4);
  EXPECT_EQ(tiny({"--transport", "mpi", "--schedule", "usp", "--ranks", "4", "--ranks-per-node",
                  "2", "--csv", path("a.csv")})
                .status,
            0);
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("status")], "ok");
  EXPECT_EQ(rows[0][column("ranks_per_node")], "2");
  EXPECT_EQ(rows[0][column("ulysses_degree")], "2");
  EXPECT_NE(rows[0][column("inter_node_bytes_per_rank")], "0");
}

TEST_F(CliProcessesTest, MeasuringWhatMessagesCostIsNoPartOfAPointAndIsStored) {
  use(4);
  const Outcome outcome =
      tiny({"--transport", "mpi", "--schedule", "usp", "--ranks", "4", "--ranks-per-node", "2",
            "--placement", "ring_inner", "--all-to-all", "automatic", "--point-timeout", "1",
            "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("automatic: mpi, 2 groups of 2 ranks on 2 nodes of 1: "));
  EXPECT_THAT(text("a.costs.json"), HasSubstr("\"groups\": 2"));
  const std::vector<Cells> rows = read_csv(path("a.csv"));  // links alone take a second
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("status")], "ok");
}

TEST_F(CliProcessesTest, PrimitivesStoreWhatAnAutomaticAllToAllGoesBy) {
  use(2);
  const auto time = [&](const char* primitive) {
    return run({"primitives", "--transport", "mpi", "--bytes", "4Ki", "--costs", path("a.json"),
                "--primitive", primitive});
  };
  EXPECT_EQ(time("all_to_all_direct").status, 0);
  EXPECT_FALSE(std::filesystem::exists(path("a.json")));  // nothing went by them
  EXPECT_EQ(time("all_to_all_automatic").status, 0);
  EXPECT_THAT(text("a.json"), HasSubstr("\"intra_node\""));
}

TEST_F(CliProcessesTest, PointsThatProcessesCannotRunAreRows) {
  use(2);
  const Outcome outcome = tiny({"--transport", "mpi", "--schedule", "ring", "--ranks", "2,3",
                                "--hop", "copy,reference", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0][column("status")], "ok");
  EXPECT_THAT(rows[1][column("status")], HasSubstr("one address space"));
  EXPECT_THAT(rows[2][column("status")], HasSubstr("3 ranks need as many processes; there are 2"));
}

TEST_F(CliProcessesTest, TheFirstSpeaksForAll) {
  use(4);
  const Outcome refused = run({"sweep", "--schedule", "rong", "--csv", path("a.csv")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(occurrences(refused.err, "ringspan: "), 1) << refused.err;
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(occurrences(version.out, "ringspan"), 1) << version.out;
  const std::string info = run({"info"}).out;
  EXPECT_EQ(occurrences(info, "transports"), 1);
  EXPECT_THAT(info, HasSubstr("local rank 3 of 4"));
}

TEST_F(CliProcessesTest, ResumeMeasuresOnlyWhatIsMissing) {
  use(2);
  EXPECT_EQ(tiny({"--transport", "mpi", "--schedule", "ring", "--csv", path("a.csv")}).status, 0);
  const std::string before = text("a.csv");
  const std::vector<std::string> more{"--transport", "threads,mpi", "--schedule", "ring",
                                      "--csv",       path("a.csv"), "--resume"};
  EXPECT_EQ(tiny(more).status, 0);
  EXPECT_THAT(text("a.csv"), StartsWith(before));
  EXPECT_EQ(read_csv(path("a.csv")).size(), 4u);
  EXPECT_THAT(tiny(more).err, HasSubstr("already holds every point"));
}

TEST_F(CliProcessesTest, APointThatTakesTooLongIsARowAndTheSweepGoesOn) {
  use(2);
  const Outcome outcome =
      run({"sweep", "--transport", "mpi,threads", "--kernel",  "reference", "--schedule",
           "ring",  "--ranks",     "2",           "--seq",     "16384,64",  "--heads",
           "1",     "--head-dim",  "8",           "--repeats", "1",         "--point-timeout",
           "0.3",   "--csv",       path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  for (const Cells& row : rows) {
    const bool small = row[column("sequence_length")] == "64";
    EXPECT_THAT(row[column("status")], HasSubstr(small ? "ok" : "--point-timeout 0.3 s"));
  }
}

TEST_F(CliProcessesTest, AMeshOfTrainingIsForAllOfThem) {
  use(4);
  const auto train = [&](const char* mesh) {
    return run({"train", "--transport", "mpi", "--mesh", mesh, "--batch", "8", "--steps", "1",
                "--layers", "1", "--seq", "37", "--compare"});
  };
  const Outcome refused = train("shard=8,ring=8");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(occurrences(refused.err, "which must equal the world's 4; nearest is ring=4"), 1)
      << refused.err;
  const Outcome trained = train("tensor=2,ring=2");
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(occurrences(trained.out, "largest difference: "), 1) << trained.out;
}

// The others have a folder of their own.
TEST_F(CliProcessesTest, OnlyTheFirstReadsClusterFiles) {
  use(2);
  std::filesystem::create_directory(path("elsewhere"));
  write("mine.toml", "like = \"h800\"\nnodes = 2\n");
  launcher_.insert(launcher_.end(), {"/bin/sh", "-c",
                                     "[ $OMPI_COMM_WORLD_RANK = 0 ] && cd \"$0\" || cd "
                                     "\"$0/elsewhere\"; exec \"$@\"",
                                     folder_});
  const std::vector<std::vector<std::string>> commands{
      {"sweep", "--transport", "simulated,mpi", "--schedule", "zigzag", "--ranks", "2", "--heads",
       "8", "--seq", "1Ki", "--repeats", "1"},
      {"trace", "--transport", "simulated", "--heads", "8", "--seq", "1Ki"},
      {"primitives", "--primitive", "broadcast", "--bytes", "1Ki"},
      {"plan", "--heads", "1", "--head-dim", "64", "--layers", "1", "--seq", "1Ki", "--ranks",
       "1"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.end(), {"--cluster", "./mine.toml"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << words[0] << ": " << outcome.err;
    words.back() = "./yours.toml";
    const Outcome refused = run(words);
    EXPECT_EQ(refused.status, 2) << words[0];
    EXPECT_EQ(occurrences(refused.err, "--cluster: cannot read ./yours.toml"), 1) << refused.err;
  }
}

TEST_F(CliProcessesTest, TheOthersWaitForWhatTheFirstDoesAlone) {
  use(2);
  setenv("RINGSPAN_TIMEOUT_S", "1", 1);
  const Outcome measured = run({"memory", "--measured", "--seq", "2Ki", "--ranks", "1"});
  EXPECT_EQ(measured.status, 0) << measured.err;
  EXPECT_EQ(occurrences(measured.out, "measured: 2048 tokens"), 1);
  const Outcome refused = run({"validate", "--published", path("none.csv")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(occurrences(refused.err, "none.csv"), 1) << refused.err;
  unsetenv("RINGSPAN_TIMEOUT_S");
}

TEST_F(CliProcessesTest, PrimitivesAreTimedTogetherAndPrintedOnce) {
  use(3);
  const Outcome outcome =
      run({"primitives", "--transport", "threads,mpi", "--ranks", "2,3,4", "--bytes", "4Ki",
           "--repeats", "2", "--format", "csv", "--primitive", "ring_exchange,mpi_alltoall"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "machine,commit"), 1);
  EXPECT_EQ(occurrences(outcome.out, ",threads,ring_exchange,"), 3);
  EXPECT_EQ(occurrences(outcome.out, ",mpi,ring_exchange,"), 2);
  EXPECT_EQ(occurrences(outcome.out, ",mpi,mpi_alltoall,"), 2);
  EXPECT_EQ(occurrences(outcome.out, ",0,ok\n"), 7);
  EXPECT_EQ(occurrences(outcome.err, "left out: mpi: launch: 4 ranks need as many processes"), 1);
}

}  // namespace
}  // namespace ringspan::bench
