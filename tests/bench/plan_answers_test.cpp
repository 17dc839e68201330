// SPDX-License-Identifier: Apache-2.0
// What `ringspan plan` answers, where it is known what it must.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/bench/plan_command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

using PlanAnswersTest = PlanCommandTest;

// Four heads are too few for Ulysses on eight GPUs, whose links are too slow for longer rings.
TEST_F(PlanAnswersTest, EightPcieGpusAndFourHeadsHaveUlyssesOnFourAndARingOfTwo) {
  const Json found = plan({"--cluster", "l20-pcie", "--seq", "8Ki", "--heads", "4", "--head-dim",
                           "128", "--layers", "8"});
  const Json winner = best(found);
  EXPECT_EQ(winner.at("ulysses"), 4) << winner;
  EXPECT_EQ(winner.at("ring"), 2);
  EXPECT_THAT(why_not(found, "Ulysses alone"), HasSubstr("heads 4 < ranks 8"));
}

TEST_F(PlanAnswersTest, FourNodesOfEightHaveUlyssesInsideAndARingBetween) {
  const Json found =
      plan({"--cluster", "h100", "--model", "llama3-8b", "--seq", "128Ki", "--ranks", "32"});
  const Json winner = best(found);
  EXPECT_EQ(winner.at("ulysses"), 8) << winner;
  EXPECT_EQ(winner.at("ring"), 4);
  EXPECT_EQ(winner.at("placement"), "ulysses_inner");
  EXPECT_THAT(why_not(found, "Ulysses alone"), HasSubstr("KV heads 4 < ranks 16"));
  EXPECT_THAT(why_not(found, "no sequence parallelism"),
              HasSubstr("at least 4 replicas, of which a batch of 1 is no multiple"));
}

TEST_F(PlanAnswersTest, WhatMovesMessagesInsideANodeIsAReason) {
  const std::vector<std::string> problem{"--model", "llama3-8b", "--seq", "32Ki", "--ranks", "8"};
  const auto reasons_on = [&](const char* cluster) {
    std::vector<std::string> words{"--cluster", cluster};
    words.insert(words.end(), problem.begin(), problem.end());
    return why(plan(words));
  };
  EXPECT_THAT(reasons_on("h100"), HasSubstr("inside a node kernels move them"));
  EXPECT_THAT(reasons_on("h100-cuda-ipc"), HasSubstr("inside a node copy engines move them"));
  write("single.toml",
        "like = 'h100'\nnodes = 8\ngpus_per_node = 1\n"
        "[fabric]\ngpus_per_switch = 1\n[network]\nadapters_per_node = 1\n");
  const std::string one_per_node = reasons_on(path("single.toml").c_str());
  EXPECT_THAT(one_per_node, HasSubstr("exposed messages of attention"));
  EXPECT_THAT(one_per_node, Not(HasSubstr("inside a node")));
}

TEST_F(PlanAnswersTest, WithBatchToSpareShortSequencesStayWhole) {
  const Json found = plan({"--cluster", "h100", "--model", "llama3-8b", "--seq", "8Ki", "--ranks",
                           "32", "--global-batch", "128"});
  EXPECT_EQ(best(found).at("schedule"), "none") << best(found);
  EXPECT_THAT(why(found), HasSubstr("batch suffices for data parallelism"));
}

// USP (arXiv 2405.07719), table 5.
TEST_F(PlanAnswersTest, InsideAnNvlinkNodeARingIsNotInTheBestMix) {
  const Json found = plan({"--cluster", "a800", "--model", "llama2-7b", "--seq", "64Ki"});
  EXPECT_EQ(best(found).at("ring"), 1) << best(found);
}

TEST_F(PlanAnswersTest, BoundsAreBelowWhatIsSimulated) {
  for (const char* cluster : {"h800", "a100-pcie"}) {
    const Json found =
        plan({"--cluster", cluster, "--heads", "16", "--kv-heads", "4", "--head-dim", "64",
              "--layers", "4", "--seq", "16Ki", "--global-batch", "2", "--ranks", "16"});
    int simulated = 0;
    for (const Json& candidate : found.at("candidates")) {
      if (!candidate.contains("predicted")) continue;
      ++simulated;
      // Where gradients take longer than all else, they are the same, but for rounding.
      const double predicted = candidate.at("predicted").at("seconds_per_step");
      EXPECT_LE(candidate.at("bound_seconds"), predicted * (1 + 1e-12)) << candidate;
    }
    EXPECT_GE(simulated, 5) << cluster;
  }
}

// Nothing that is said of a mix may contradict what the mix is.
TEST_F(PlanAnswersTest, CandidatesAreInOrderAndFitAsTheySay) {
  const Json found = plan({"--cluster", "h100", "--model", "llama3-8b", "--seq", "256Ki", "--ranks",
                           "16", "--global-batch", "2"});
  double last = 0;
  for (const Json& candidate : found.at("candidates")) {
    const int ranks = candidate.at("data").get<int>() * candidate.at("tensor").get<int>() *
                      candidate.at("ulysses").get<int>() * candidate.at("ring").get<int>();
    EXPECT_EQ(ranks, 16);
    const Json& figures = candidate.at(candidate.contains("predicted") ? "predicted" : "at_least");
    EXPECT_EQ(candidate.at("fits"), figures.at("peak_bytes") <= 80e9);
    if (!candidate.at("fits") || !candidate.contains("predicted")) continue;
    EXPECT_GE(figures.at("seconds_per_step"), last);
    last = figures.at("seconds_per_step");
    EXPECT_NEAR(figures.at("tokens_per_s").get<double>() * last, 2 * 262144, 1);
    EXPECT_GT(figures.at("mfu"), 0);
    EXPECT_LT(figures.at("mfu"), 1);
  }
  EXPECT_GT(last, 0);
}

TEST_F(PlanAnswersTest, AMillionTokensOn64GpusArePlannedWithinAMinute) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const Json found =
      plan({"--cluster", "h800", "--model", "llama3-8b", "--seq", "1Mi", "--ranks", "64"});
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 60);
  EXPECT_EQ(best(found).at("schedule"), "usp") << best(found);
  EXPECT_EQ(best(found).at("recompute"), "full");
  EXPECT_THAT(why_not(found, "Ulysses alone"), HasSubstr("heads 32 < ranks 64"));
}

}  // namespace
}  // namespace ringspan::bench
