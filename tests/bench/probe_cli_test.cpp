// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/cluster_file.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ProbeCommandTest : public CommandTest {};

TEST_F(ProbeCommandTest, PrintsAndStoresWhatItMeasured) {
  const Outcome outcome = run({"probe", "--ranks", "4", "--ranks-per-node", "2", "--seconds", "0.1",
                               "--json", path("costs.json")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("between nodes"), HasSubstr("inside a node"),
                                 HasSubstr("threads, 4 ranks on 2 nodes of 2"),
                                 HasSubstr("all-to-all, B per pair")));
  EXPECT_THAT(text("costs.json"), AllOf(HasSubstr("\"ranks\": 4"), HasSubstr("latency_s")));
}

TEST_F(ProbeCommandTest, SaysNothingOfLinksThatAreNotThere) {
  const Outcome outcome = run({"probe", "--seconds", "0.1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("between nodes")), HasSubstr("inside a node")));
  EXPECT_THAT(run({"probe", "--ranks", "1", "--seconds", "0.1"}).out,
              HasSubstr("threads, 1 rank on 1 node of 1: hierarchical all-to-alls pay at no size"));
}

TEST_F(ProbeCommandTest, WritesAClusterOfWhatItMeasured) {
  const Outcome outcome = run({"probe", "--ranks", "4", "--ranks-per-node", "2", "--seconds", "0.1",
                               "--cluster", path("mine.toml")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const comm::Cluster cluster = read_cluster(path("mine.toml"));
  EXPECT_EQ(cluster.nodes, 2);
  EXPECT_EQ(cluster.gpus_per_node, 2);
  EXPECT_GT(cluster.network.adapter_bytes_per_second, 0);
}

TEST_F(ProbeCommandTest, AClusterThatCannotBeWrittenWholeIsAFailure) {
  const Outcome outcome = run_with_files_up_to(
      1024, {"probe", "--ranks", "2", "--seconds", "0.1", "--cluster", path("mine.toml")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--cluster: cannot write " + path("mine.toml")));
  EXPECT_EQ(files().size(), 2u) << "out and err";
}

TEST_F(ProbeCommandTest, RefusesBadInputWithOneLineBeforeItMeasures) {
  expect_refused({"probe", "--ranks", "0"}, "--ranks");
  expect_refused({"probe", "--ranks", "1,2"}, "--ranks: takes one value");
  expect_refused({"probe", "--ranks", "99999"}, "the most is 4096");
  expect_refused({"probe", "--seconds", "0"}, "--seconds");
  expect_refused({"probe", "--seconds", "1e9"}, "the most is 3600");
  expect_refused({"probe", "--transport", "pigeon"}, "threads");
  expect_refused({"probe", "--transport", "simulated"},
                 "--transport: simulated moves no bytes whose time could be measured");
  expect_refused({"probe", "--json", path("no/costs.json")}, "cannot write");
  write("rows.csv", "a,b\n");
  expect_refused({"probe", "--cluster", path("rows.csv")}, "must end in .toml");
  write("there.toml", "");
  expect_refused({"probe", "--cluster", path("there.toml")}, "exists; give another name");
  expect_refused({"probe", "--cluster", path("no/mine.toml")}, "cannot write");
  expect_refused({"probe", "--json", path("rows.csv")}, "holds no list of costs");
}

}  // namespace
}  // namespace ringspan::bench
