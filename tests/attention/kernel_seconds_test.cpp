// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/kernel_seconds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace kernel_seconds_test {

std::vector<Tile> square(std::int64_t tokens, const Mask& mask) {
  const Shard all{{0, 1, tokens}};
  return visible_tiles(all, all, Sequence{tokens}, mask);
}
const Mask kFull;
const Mask kCausal{.right = 0};

/// TFLOP/s as published: a causal mask counts as half of the square.
double rate(const KernelCurve& curve, std::int64_t tokens, const Mask& mask) {
  const double flops = (mask == kCausal ? 0.5 : 1.0) * static_cast<double>(tokens * tokens);
  return flops / kernel_seconds(curve, square(tokens, mask), 1, 1) * 1e-12;
}

TEST(KernelSecondsTest, AFullRectangleTakesItsWorkAndASurchargePerRow) {
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {1e12, 50}, {1e12, 100}, 128, false, ""};
  const std::vector<Tile> tiles{{{0, 1, 10}, {0, 1, 1000}, -9, 999}};
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, tiles, 512, 3), 3 * 512 * (10 * 1000 + 10 * 50) / 1e12);
}

TEST(KernelSecondsTest, RowsCutByTheMaskComputeKeysForNothingButNeverMoreThanThereAre) {
  // half_keys 0 and cut_keys 3: of 5 causal rows (15 pairs) the rows waste min(3, 4, 3, 2, 1, 0).
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {2e12, 0}, {1e12, 6}, 128, false, ""};
  ASSERT_EQ(curve.cut_keys(), 3);
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, square(5, kCausal), 1, 1), (15 + 3 + 3 + 2 + 1) / 1e12);
  // A window cuts on both sides: 5 rows with 1, 2, 2, 2, 2 keys, behind them 4, 3, 2, 1, 0 and
  // before them 0, 0, 1, 2, 3.
  const Mask window{.left = 1, .right = 0};
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, square(5, window), 1, 1), (9 + 9 + 6) / 1e12);
}

TEST(KernelSecondsTest, ARowThatMeetsSeveralTilesOfACallHasOneSurcharge) {
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {1e12, 7}, {1e12, 14}, 128, false, ""};
  const std::vector<Tile> tiles{{{4, 1, 2}, {0, 1, 3}, -1, 2}, {{4, 1, 2}, {8, 1, 3}, -1, 2}};
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, tiles, 1, 1), (2 * 6 + 2 * 7) / 1e12);
  EXPECT_EQ(call_rows(tiles, 16).queries, 2);
  EXPECT_EQ(call_rows(tiles, 16).keys, 6);
  EXPECT_EQ(call_rows(tiles, 5).keys, 5);
}

TEST(KernelSecondsTest, WavesOfThreadBlocksAreWhole) {
  EXPECT_DOUBLE_EQ(wave_factor(132, 132, false), 1);
  EXPECT_DOUBLE_EQ(wave_factor(133, 132, false), 264.0 / 133);
  EXPECT_DOUBLE_EQ(wave_factor(133, 132, true), 1);
  EXPECT_DOUBLE_EQ(wave_factor(64, 132, true), 132.0 / 64) << "idle multiprocessors";
}

struct Published {
  std::string gpu;
  KernelLibrary library;
  KernelPass pass;
  std::int64_t head_dim;
  Mask mask;
  std::vector<double> teraflops;  // of 2Ki, 4Ki, ... tokens
};

// Rows of the sources that kernel_curves.cpp names. They were fitted, so they must come out again:
// this finds a slip in the table, and says nothing of rows that were not.
TEST(KernelSecondsTest, CurvesReturnTheRowsThatTheyWereFittedTo) {
  using enum KernelLibrary;
  using enum KernelPass;
  const Published rows[] = {
      {"h100", fa2, forward, 64, kFull, {318, 321, 322, 324}},
      {"h100", fa2, forward, 64, kCausal, {262, 284, 295, 299}},
      {"h100", fa2, forward, 128, kFull, {360, 376, 373, 373, 376}},
      {"h800", fa2, forward, 128, kCausal, {271, 327, 350, 363, 365}},
      {"h100", fa2, backward, 128, kFull, {277, 308, 320, 331, 335}},
      {"h100", fa2, backward, 128, kCausal, {210, 266, 301, 323, 330}},
      {"h100", fa3, forward, 64, kCausal, {371, 420, 460, 473}},
      {"h200", fa3, forward, 128, kFull, {672, 678, 674, 687, 701}},
      {"h100", fa3, forward, 128, kCausal, {583, 661, 657, 671, 678}},
      {"h100", fa3, forward, 256, kFull, {707, 736, 746, 756}},
      {"h100", fa3, backward, 128, kFull, {453, 517, 556, 587, 601}},
      {"h100", fa3, backward, 128, kCausal, {353, 462, 518, 562, 586}},
      {"h100", cudnn, forward, 128, kFull, {504, 546, 564, 576, 584}},
      {"h100", cudnn, forward, 128, kCausal, {361, 486, 536, 553, 566}},
      {"h100", cudnn, backward, 128, kCausal, {264, 368, 426, 461, 485}},
      {"b200", cudnn, forward, 128, kFull, {921, 1278, 1319, 1319, 1326}},
      {"b200", cudnn, backward, 128, kCausal, {335, 504, 643, 709, 738}},
  };
  for (const Published& row : rows) {
    const KernelCurve& curve =
        kernel_curve(row.gpu, row.library, row.pass, static_cast<double>(row.head_dim));
    // B200 calls of 2Ki tokens are as long as their launch, which is not in the curve.
    const std::size_t from = row.gpu == "b200" ? 1 : 0;
    for (std::size_t i = from; i < row.teraflops.size(); ++i) {
      const std::int64_t tokens = 2048ll << i;
      EXPECT_NEAR(rate(curve, tokens, row.mask) / row.teraflops[i], 1, 0.07)
          << row.gpu << ' ' << name(row.library) << (row.pass == forward ? " fwd" : " bwd")
          << row.head_dim << ' ' << tokens;
    }
  }
}

TEST(KernelSecondsTest, EveryCurveIsOneThatAKernelCouldHave) {
  for (const KernelCurve& curve : kernel_curves()) {
    const std::string which = concat(curve.gpu, ' ', name(curve.library), ' ', curve.head_dim);
    EXPECT_GE(curve.cut_keys(), 0) << which;
    EXPECT_NEAR(curve.causal.flops_per_second / curve.full.flops_per_second, 1, 0.15) << which;
    EXPECT_FALSE(curve.source.empty()) << which;
  }
}

TEST(KernelSecondsTest, TheNearestHeadDimIsTaken) {
  using enum KernelLibrary;
  const auto head_dim = [](double asked) {
    return kernel_curve("h100", fa3, KernelPass::forward, asked).head_dim;
  };
  EXPECT_EQ(head_dim(32), 64);
  EXPECT_EQ(head_dim(96), 128);
  EXPECT_EQ(head_dim(192), 256);
  EXPECT_EQ(kernel_curve("h100", fa3, KernelPass::backward, 64).head_dim, 128) << "the only one";
}

std::string refusal(std::string_view gpu, KernelLibrary library) {
  try {
    kernel_curve(gpu, library, KernelPass::forward, 128);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(KernelSecondsTest, UnknownCurvesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(refusal("a800", KernelLibrary::fa3),
            "no speed of fa3 is known on a800; known there are fa2");
  EXPECT_EQ(refusal("tpu", KernelLibrary::fa2),
            "no speed of attention is known for a GPU of kind 'tpu'; known are a100, a800, h100, "
            "h800, h200, b200, l20");
}

}  // namespace kernel_seconds_test
}  // namespace ringspan::attention
