// SPDX-License-Identifier: Apache-2.0
// What `ringspan plan` answers where the answer is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/bench/plan_command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;

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
  EXPECT_THAT(why_not(found, "Ulysses alone"), HasSubstr("KV heads 8 < ranks 32"));
  EXPECT_THAT(why_not(found, "no sequence parallelism"),
              HasSubstr("at least 4 replicas, of which a batch of 1 is no multiple"));
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
