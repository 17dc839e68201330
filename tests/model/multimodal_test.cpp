// SPDX-License-Identifier: Apache-2.0
#include "model/multimodal.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "comm/collectives.hpp"
#include "model/loss.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model {
namespace multimodal_test {

using testing::ElementsAre;

// 26 tokens: text at 0, 8, 9 and from 22 on; six images, the fourth without tokens, all of other
// sizes, the last two without text between them.
const std::vector<Part> kImages{{1, 2}, {3, 5}, {10, 1}, {11, 0}, {11, 4}, {15, 7}};
constexpr std::int64_t kTokens = 26, kRows = 19;

/// What token `place` is made of: its image and which of that image's tokens it is, or its place.
std::int64_t feature(std::int64_t place) {
  for (std::size_t image = 0; image < kImages.size(); ++image) {
    const std::int64_t row = place - kImages[image].first;
    if (row >= 0 && row < kImages[image].count) return 1000 * (static_cast<int>(image) + 1) + row;
  }
  return -place;
}

class MultimodalTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, MultimodalTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return concat(info.param, "ranks"); });

TEST_P(MultimodalTest, EachRankEncodesAsManyImagesAsTheOthers) {
  std::int64_t image = 0, row = 0;
  for (const EncoderShare& share : encoder_shares(kImages, GetParam())) {
    EXPECT_EQ(share.images.first, image);
    EXPECT_EQ(share.rows.first, row);
    EXPECT_LE(share.images.count, (6 + GetParam() - 1) / GetParam());
    EXPECT_GE(share.images.count, 6 / GetParam());
    for (std::int64_t i = 0; i < share.images.count; ++i) row += kImages[image++].count;
    EXPECT_EQ(share.rows.first + share.rows.count, row);
  }
  EXPECT_EQ(image, 6);
  EXPECT_EQ(row, kRows);
}

// Both stages as a model takes them: encode the own images, gather, look up the own tokens.
TEST_P(MultimodalTest, GatheredFeaturesMeetTheirTokens) {
  comm::test::launch({.ranks = GetParam()}, [](const comm::Communicator& world) {
    const auto shares = encoder_shares(kImages, world.size());
    const comm::Buffer all = world.device().allocate(kRows * 8);
    auto* features = reinterpret_cast<std::int64_t*>(all.data());
    const Part own = shares[world.rank()].images;
    std::int64_t row = shares[world.rank()].rows.first;
    for (std::int64_t image = own.first; image < own.first + own.count; ++image) {
      for (std::int64_t i = 0; i < kImages[image].count; ++i) {
        features[row++] = feature(kImages[image].first + i);
      }
    }
    std::vector<comm::Slice> parts;
    for (const EncoderShare& share : shares) {
      parts.push_back(comm::slice(all, 8 * share.rows.first, 8 * share.rows.count));
    }
    comm::all_gather(world, parts);

    for (const auto layout : {attention::LayoutKind::contiguous, attention::LayoutKind::striped,
                              attention::LayoutKind::zigzag}) {
      const auto shard = attention::shard(layout, {kTokens}, world.size(), world.rank());
      const std::vector<std::int64_t> places = attention::positions(shard);
      const std::vector<std::int64_t> rows = feature_rows(kImages, shard);
      ASSERT_EQ(rows.size(), places.size());
      for (std::size_t token = 0; token < rows.size(); ++token) {
        EXPECT_EQ(rows[token] < 0 ? -places[token] : features[rows[token]], feature(places[token]))
            << places[token];
      }
    }
  });
}

TEST(MultimodalTargetsTest, TokensOfImagesAreNotPredicted) {
  constexpr std::int64_t kIgnored = kIgnoredLabel;
  const std::vector<Part> images{{1, 2}, {4, 1}};
  EXPECT_THAT(text_targets(images, {5, 6, 7, 8, 9, 10}),
              ElementsAre(5, kIgnored, kIgnored, 8, kIgnored, 10));
}

TEST(MultimodalTargetsTest, RefusesImagesThatOverlapOrReachTooFar) {
  const std::vector<Part> overlapping{{1, 3}, {3, 2}}, unordered{{4, 1}, {1, 1}}, far{{4, 3}};
  EXPECT_THROW(encoder_shares(overlapping, 2), Error);
  EXPECT_THROW(feature_rows(unordered, {{0, 1, 6}}), Error);
  EXPECT_THROW(text_targets(far, {1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW(encoder_shares({}, 0), Error);
}

TEST(MultimodalTargetsTest, SequencesWithoutImagesAreText) {
  EXPECT_EQ(encoder_shares({}, 3).size(), 3);
  EXPECT_THAT(feature_rows({}, {{2, 2, 3}}), ElementsAre(-1, -1, -1));
}

}  // namespace multimodal_test
}  // namespace ringspan::model
