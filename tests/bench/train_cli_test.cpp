// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class TrainCliTest : public CommandTest {
 protected:
  Outcome train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "--layers", "1", "--hidden", "24", "--head-dim", "6",
                               "--mlp-hidden", "40", "--seq", "37"});
    return run(more);
  }
};

TEST_F(TrainCliTest, RefusesBadInputInOneLine) {
  expect_refused({"train", "--mesh", "expert=2"}, "--mesh: unknown axis 'expert'");
  expect_refused({"train", "--mesh", "pipeline=2"}, "pipeline is 2");
  expect_refused({"train", "--mesh", "data=65536x65536"},
                 "--mesh: shard=65536,replicate=65536 has");
  expect_refused({"train", "--mesh", "ulysses=65536,ring=65537"}, "has too many ranks");
  expect_refused(
      {"train", "--heads", "1073741824", "--kv-heads", "1073741824", "--head-dim", "1073741824"},
      "heads 1073741824, kv_heads 1073741824, head_dim 1073741824, ");
  expect_refused({"train", "--mesh", "tensor=3"}, "which does not divide the 4 KV heads");
  expect_refused({"train", "--mesh", "data=5"},
                 "--batch: 4 samples for 5 data-parallel ranks; each needs at least one");
  expect_refused({"train", "--schedule", "zigzag", "--mesh", "ulysses=2,ring=2"},
                 "--schedule: zigzag has one dimension");
  expect_refused({"train", "--schedule", "linear"}, "known are ring, ");
  expect_refused({"train", "--inner-ring", "2"}, "--inner-ring: zigzag has none; double_ring and");
  expect_refused({"train", "--head-groups", "2"}, "--head-groups: zigzag has none; ulysses_over");
  expect_refused({"train", "--kernel", "null"}, "known are cpu, reference, reproducible, linear");
  expect_refused({"train", "--kernel", "cpu", "--dtype", "fp64"}, "--kernel: cpu takes no fp64");
  expect_refused({"train", "--kernel", "reproducible", "--dtype", "fp64"}, "takes no fp64");
  expect_refused({"train", "--transport", "smoke"}, "known are threads");
  expect_refused({"train", "--variant", "bert"}, "--variant: unknown variant 'bert'");
  expect_refused({"train", "--window", "-1"}, "--window: ");
  expect_refused({"train", "--dropout", "0.1"}, "variant llama has none; gpt has");
  expect_refused({"train", "--dtype", "bf16"}, "a model computes in fp32 or fp64, not in bf16");
  expect_refused({"train", "--recompute", "some"}, "known are none, selective, selective_plus");
  expect_refused({"train", "--mlp-tiles", "0"}, "--mlp-tiles: 0 is too small; the least is 1");
  expect_refused({"train", "--seq", "37", "--mlp-tiles", "38"},
                 "--mlp-tiles: 38 tiles of the 37 tokens of a sample; as many at most");
  expect_refused({"train", "--seq", "37", "--batch", "2", "--loss-tiles", "75"},
                 "--loss-tiles: 75 tiles of the 74 tokens of a step; as many at most");
  expect_refused({"train", "--placement", "ring_inner"}, "--placement: zigzag has none; usp has");
  expect_refused({"train", "--schedule", "halo", "--backward", "q"}, "--backward: halo has one");
  expect_refused({"train", "--backward", "v"}, "known are kv, q, automatic");
  expect_refused({"train", "--steps", "1,2"}, "--steps: takes one value");
  expect_refused({"train", "--text", path("none")}, "--text: cannot read ");
  expect_refused({"train", "--text", path("")}, ": it is a directory");
  expect_refused({"train", "--seq", "1Mi"}, "bytes; a sample of --seq takes 1048576");
  expect_refused({"train", "--batch", "1Gi"}, "--batch: 1073741824 samples of 256 tokens and this");
  expect_refused({"train", "--hidden", "1Gi"}, " GiB on 2 ranks; the machine has ");
  expect_refused({"train", "--layers", "1Gi"}, " GiB on 2 ranks; the machine has ");
  expect_refused({"train", "--ulysses-degree", "2"}, "unknown option '--ulysses-degree'");
}

double largest_difference(const std::string& printed) {
  std::smatch match;
  const std::regex pattern("largest difference: ([-+.e0-9]+) of the loss");
  EXPECT_TRUE(std::regex_search(printed, match, pattern)) << printed;
  return match.empty() ? 1 : std::atof(match[1].str().c_str());
}

TEST_F(TrainCliTest, PrintsALinePerStepAndTheDifferenceToOneRank) {
  const Outcome outcome = train({"--steps", "3", "--mesh", "tensor=2,ring=2", "--compare"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(" step       loss   tokens/s"));
  EXPECT_THAT(outcome.out, HasSubstr("4 ranks       one rank   difference"));
  EXPECT_LT(largest_difference(outcome.out), 1e-6);
}

TEST_F(TrainCliTest, RefusesSchedulesBeforeOneRankTrains) {
  const auto refused = [&](std::vector<std::string> more, const std::string& reason) {
    more.insert(more.begin(), {"train", "--steps", "1000000", "--compare"});
    expect_refused(more, reason);
  };
  refused({"--mesh", "ring=4", "--schedule", "double_ring", "--inner-ring", "3"}, "inner_ring");
  refused({"--mesh", "ulysses=16"}, "heads");
  refused({"--schedule", "halo"}, "halo: a query of mask");
  refused({"--schedule", "ring_self_attention", "--kernel", "linear"}, "scores");
}

TEST_F(TrainCliTest, AttentionIsReproducible) {
  const auto printed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--steps", "1", "--kernel", "reproducible", "--compare"});
    const Outcome outcome = train(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const std::string all = ": 4 of 4 outputs and gradients have the bits of one rank";
  EXPECT_THAT(printed({"--mesh", "ring=3"}), HasSubstr(all));
  EXPECT_THAT(printed({"--mesh", "ulysses=2,ring=2", "--head-groups", "2"}), HasSubstr(all));
  EXPECT_THAT(printed({"--mesh", "ring=4", "--schedule", "double_ring", "--inner-ring", "2"}),
              HasSubstr(all));
  EXPECT_THAT(printed({"--mesh", "ring=2,data=2", "--variant", "gpt"}), HasSubstr(all));
  // Sums over a tensor group have another order than a product: what comes behind them differs.
  EXPECT_THAT(printed({"--mesh", "tensor=2"}), HasSubstr(": 1 of 4 outputs"));
}

// LoongTrain's double ring, context first; BurstAttention's backward pass.
TEST_F(TrainCliTest, EveryFormOfAScheduleTrains) {
  const auto bytes_sent = [&](const std::string& backward) {
    const std::string csv = path(backward + ".csv");
    const Outcome outcome =
        train({"--steps", "2", "--mesh", "ulysses=2,ring=4", "--inner-ring", "2", "--placement",
               "ring_inner", "--backward", backward, "--compare", "--csv", csv});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_LT(largest_difference(outcome.out), 1e-6);
    const std::string rows = text(backward + ".csv");
    EXPECT_THAT(rows, HasSubstr(",8,usp,2,,ring_inner," + backward + ",cpu,"));
    return rows.substr(rows.rfind(',') + 1);
  };
  EXPECT_NE(bytes_sent("kv"), bytes_sent("q"));
}

TEST_F(TrainCliTest, OtherKernelsTrainToo) {
  const Outcome outcome = train({"--steps", "2", "--kernel", "linear", "--compare"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("largest difference: "));
}

TEST_F(TrainCliTest, WritesARowPerStep) {
  const Outcome outcome = train({"--steps", "3", "--variant", "gpt", "--recompute", "full",
                                 "--offload", "--mlp-tiles", "3", "--blockwise", "--loss-tiles",
                                 "2", "--mesh", "ulysses=2,data=2", "--csv", path("a.csv")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string csv = text("a.csv");
  EXPECT_THAT(csv, StartsWith("machine,commit,variant,dtype,transport,mesh,ranks,schedule,"));
  EXPECT_THAT(
      csv, HasSubstr(",gpt,fp32,threads,\"ulysses=2,replicate=2\",4,ulysses,,,,,cpu,full,1,3,1,2,"
                     "37,4,1,24,8,4,0.001,1,1,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 3);
  expect_refused({"train", "--csv", path("a.csv")}, "a.csv exists; give another name");
}

TEST_F(TrainCliTest, ARunThatIsRefusedLeavesNoFile) {
  expect_refused({"train", "--csv", "/nonexistent/a.csv"}, "cannot write /nonexistent/a.csv");
  expect_refused({"train", "--schedule", "halo", "--csv", path("c.csv")}, "halo: a query of mask");
  EXPECT_FALSE(std::filesystem::exists(path("c.csv")));
}

TEST_F(TrainCliTest, ALossThatIsNoNumberIsAFailure) {
  const Outcome outcome = train({"--steps", "3", "--learning-rate", "1e30"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, testing::EndsWith("the loss of step 2 is no finite number\n"));
}

TEST_F(TrainCliTest, LossesThatAreNoNumbersCannotBeCompared) {
  const Outcome outcome =
      train({"--steps", "4", "--learning-rate", "1e30", "--compare", "--csv", path("d.csv")});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("largest difference: nan of the loss"));
  EXPECT_THAT(outcome.out, HasSubstr("no finite numbers"));
  const std::string csv = text("d.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 4);
}

TEST_F(TrainCliTest, LearnsAnyFile) {
  write("zeros", std::string(100, '0'));
  const Outcome outcome = train({"--text", path("zeros"), "--steps", "30", "--learning-rate",
                                 "0.01", "--csv", path("b.csv")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string csv = text("b.csv");
  const std::string last = csv.substr(csv.find(",30,") + 4);  // its loss
  EXPECT_LT(std::atof(last.c_str()), 0.5);
}

}  // namespace
}  // namespace ringspan::bench
