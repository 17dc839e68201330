// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bench/validate/score.hpp"

namespace ringspan::bench {
namespace {

TEST(ValidateScoreTest, ErrorsAreRelativeToWhatWasPublished) {
  const std::vector<Comparison> figures = {{"", 10, 11}, {"", 20, 15}, {"", -4, -4}};
  const Score relative = score(figures, false);
  EXPECT_EQ(relative.figures, 3u);
  EXPECT_DOUBLE_EQ(relative.mean_absolute, (0.1 + 0.25) / 3);
  EXPECT_DOUBLE_EQ(relative.largest, -0.25) << "with its sign";
  EXPECT_DOUBLE_EQ(relative.bias, (0.1 - 0.25) / 3);

  const Score absolute = score(figures, true);
  EXPECT_DOUBLE_EQ(absolute.mean_absolute, 2);
  EXPECT_DOUBLE_EQ(absolute.largest, -5);
  EXPECT_DOUBLE_EQ(absolute.bias, -4.0 / 3);
}

TEST(ValidateScoreTest, TauCountsPairsInOrderAgainstThoseInTheWrongOne) {
  EXPECT_DOUBLE_EQ(
      score(std::vector<Comparison>{{"", 1, 5}, {"", 2, 6}, {"", 3, 7}}, false).kendall_tau, 1);
  EXPECT_DOUBLE_EQ(
      score(std::vector<Comparison>{{"", 1, 7}, {"", 2, 6}, {"", 3, 5}}, false).kendall_tau, -1);
  EXPECT_DOUBLE_EQ(
      score(std::vector<Comparison>{{"", 1, 5}, {"", 2, 5}, {"", 3, 6}}, false).kendall_tau,
      2.0 / 3)
      << "predicted as equal: neither";
}

TEST(ValidateScoreTest, TauLeavesOutPairsThatHardlyDifferAndPairsOfTwoProblems) {
  const std::vector<Comparison> close = {{"", 100, 2}, {"", 101.9, 1}, {"", 120, 3}};
  EXPECT_DOUBLE_EQ(score(close, false).kendall_tau, 1) << "1.9 % is noise";
  const std::vector<Comparison> apart = {{"a", 1, 2}, {"b", 2, 1}};
  EXPECT_TRUE(std::isnan(score(apart, false).kendall_tau)) << "nothing to rank";
}

TEST(ValidateScoreTest, NothingScoresNothing) { EXPECT_EQ(score({}, false).figures, 0u); }

}  // namespace
}  // namespace ringspan::bench
