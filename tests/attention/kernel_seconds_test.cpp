// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels/kernel_seconds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
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

/// In how many heads the sources had a sequence cut: Magi in 64, the papers 16Ki tokens of hidden
/// size 2048 in as many sequences as it takes.
std::int64_t heads_of(const KernelCurve& curve, std::int64_t tokens) {
  return curve.source == "Magi" ? 64 : 2048 / curve.head_dim * (16384 / tokens);
}

/// TFLOP/s as published: a causal mask counts as half of the square.
double rate(const KernelCurve& curve, std::int64_t tokens, const Mask& mask, std::int64_t heads) {
  const std::vector<Tile> tiles = square(tokens, mask);
  const double flops = (mask == kCausal ? 0.5 : 1.0) * static_cast<double>(heads * tokens * tokens);
  const bool tail = mask == kCausal && curve.resident > 0;
  return flops * 1e-12 /
         (tail ? call_seconds(curve, tiles, 1, heads, tokens, 132)
               : kernel_seconds(curve, tiles, 1, heads));
}

TEST(KernelSecondsTest, AFullRectangleTakesItsWorkAndASurchargePerRow) {
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {1e12, 50}, {1e12, 100}, 128, false, 0, ""};
  const std::vector<Tile> tiles{{{0, 1, 10}, {0, 1, 1000}, -9, 999}};
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, tiles, 512, 3), 3 * 512 * (10 * 1000 + 10 * 50) / 1e12);
}

TEST(KernelSecondsTest, RowsCutByTheMaskComputeKeysForNothingButNeverMoreThanThereAre) {
  // half_keys 0 and cut_keys 3: of 5 causal rows (15 pairs) the rows waste min(3, 4, 3, 2, 1, 0).
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {2e12, 0}, {1e12, 6}, 128, false, 0, ""};
  ASSERT_EQ(curve.cut_keys(), 3);
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, square(5, kCausal), 1, 1), (15 + 3 + 3 + 2 + 1) / 1e12);
  // A window cuts on both sides: 5 rows with 1, 2, 2, 2, 2 keys, behind them 4, 3, 2, 1, 0 and
  // before them 0, 0, 1, 2, 3.
  const Mask window{.left = 1, .right = 0};
  EXPECT_DOUBLE_EQ(kernel_seconds(curve, square(5, window), 1, 1), (9 + 9 + 6) / 1e12);
}

TEST(KernelSecondsTest, ARowThatMeetsSeveralTilesOfACallHasOneSurcharge) {
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {1e12, 7}, {1e12, 14}, 128, false, 0, ""};
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

TEST(KernelSecondsTest, EqualThreadBlocksEndInWavesHoweverManyShareAMultiprocessor) {
  const std::vector<double> one{2};
  for (const int resident : {1, 2}) {
    for (const std::int64_t blocks : {1, 5, 6, 7, 12, 13, 18, 19, 31}) {
      EXPECT_DOUBLE_EQ(makespan(one, blocks, 6, resident) * 6 / (2.0 * static_cast<double>(blocks)),
                       wave_factor(blocks, 6, false))
          << blocks << " thread blocks, " << resident << " at once";
    }
  }
}

// One at a time: 1 and 3 (until 4), 3 (until 7) beside 2, 1 (until 3), 2 (until 5). Two at once: 1
// with 3 until 2, of which 2 are left with 3 until 6, and 1 alone until 7.
TEST(KernelSecondsTest, ThreadBlocksStartInOrderWhereOneEndsFirst) {
  const std::vector<double> blocks{1, 2, 3};
  EXPECT_DOUBLE_EQ(makespan(blocks, 2, 2, 1), 7);
  EXPECT_DOUBLE_EQ(makespan(blocks, 2, 2, 2), 7);
  EXPECT_DOUBLE_EQ(makespan(blocks, 2, 3, 1), 5) << "1 2 | 2 3 | 3 1, the last of them 3 after 2";
  EXPECT_DOUBLE_EQ(makespan(std::vector<double>{3, 2, 1}, 2, 2, 1), 6) << "the longest first";
}

TEST(KernelSecondsTest, NoScheduleIsShorterThanItsWorkNorLongerThanItsLongestThreadBlocks) {
  std::vector<double> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(1 + 37 * i % 41);
  const double sum = std::accumulate(blocks.begin(), blocks.end(), 0.0);
  for (const int resident : {1, 2}) {
    for (const int multiprocessors : {1, 3, 7, 39}) {
      const double least = 5 * sum / multiprocessors, longest = 41.0 * resident;
      const double end = makespan(blocks, 5, multiprocessors, resident);
      EXPECT_GE(end, least * (1 - 1e-12));
      EXPECT_LE(end, least + longest);
      if (multiprocessors == 1) {
        EXPECT_NEAR(end, least, 1e-9) << "it is never idle";
      }
    }
  }
}

// The curve is without a mask, and of MagiAttention; these rows are the FA3 paper's, of which it
// has nothing, in 16 heads of 16Ki tokens or as many more as they are shorter.
TEST(KernelSecondsTest, TheTailIsWhatPublishedCausalKernelsLose) {
  const KernelCurve& curve = kernel_curve("h100", KernelLibrary::fa2, KernelPass::forward, 128);
  const double published[] = {260, 298, 319, 333, 335};
  std::int64_t tokens = 1024;
  for (const double teraflops : published) {
    EXPECT_NEAR(rate(curve, tokens, kCausal, 16 * 16384 / tokens) / teraflops, 1, 0.025) << tokens;
    tokens *= 2;
  }
  const double without =
      16.0 * 16384 * 16384 / 2 * 1e-12 / kernel_seconds(curve, square(16384, kCausal), 1, 16);
  EXPECT_GT(without / published[4], 1.07) << "it is no small part";
}

TEST(KernelSecondsTest, RowsOfSeveralTilesFillThreadBlocksOneAfterTheOther) {
  const KernelCurve curve{
      "", KernelLibrary::fa2, KernelPass::forward, 128, {1e12, 0}, {1e12, 4}, 4, false, 1, ""};
  // Rows 0 to 2 see 1, 2 and 3 of 8 keys, each wasting 2; rows 3 to 7 see all 8.
  const std::vector<Tile> tiles{{{0, 1, 3}, {0, 1, 8}, -2, 0}, {{3, 1, 5}, {0, 1, 8}, -4, 7}};
  const double first = 1 + 2 + 3 + 3 * 2 + 8, second = 4 * 8;
  EXPECT_DOUBLE_EQ(call_seconds(curve, tiles, 1, 1, 8, 2), second * 2 / 1e12);
  EXPECT_DOUBLE_EQ(call_seconds(curve, tiles, 1, 1, 8, 1), (first + second) / 1e12);
  // Of three heads the first thread blocks end earlier each time, and the last one starts there.
  EXPECT_DOUBLE_EQ(call_seconds(curve, tiles, 3, 3, 8, 2), 3 * (3 * first + second) * 2 / 1e12);
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
      const std::int64_t heads = heads_of(curve, tokens);
      EXPECT_NEAR(rate(curve, tokens, row.mask, heads) / row.teraflops[i], 1, 0.07)
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
