// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/document_sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>

#include "bench/random.hpp"

namespace ringspan::bench {
namespace {

TEST(RandomTest, IsAFunctionOfSeedAndIndexAlone) {
  EXPECT_EQ(random_bits(1, 2), random_bits(1, 2));
  EXPECT_NE(random_bits(1, 2), random_bits(2, 1));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(random_fraction(3, i), 0);
    EXPECT_LT(random_fraction(3, i), 1);
    EXPECT_LT(random_below(7, 3, i), 7);
  }
}

TEST(DocumentSamplingTest, BinsAreThoseOfThePublishedFile) {
  std::ifstream file(RINGSPAN_PUBLISHED "/document_lengths.csv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << "no " << RINGSPAN_PUBLISHED "/document_lengths.csv";
  for (const LengthBin& bin : document_length_bins()) {
    LengthBin read{};
    char comma = 0;
    file >> read.least >> comma >> read.most >> comma >> read.percent;
    EXPECT_EQ(read.least, bin.least);
    EXPECT_EQ(read.most, bin.most);
    EXPECT_EQ(read.percent, bin.percent);
  }
  EXPECT_FALSE(static_cast<bool>(file >> line)) << "more bins: " << line;
}

TEST(DocumentSamplingTest, FillsThePackAndCutsAtAQuarter) {
  for (const std::int64_t length : {1, 2, 3, 4, 5, 100, 4096, 131072}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const std::vector<std::int64_t> documents = sample_documents(length, seed);
      EXPECT_EQ(std::accumulate(documents.begin(), documents.end(), std::int64_t{0}), length);
      for (const std::int64_t tokens : documents) {
        EXPECT_GE(tokens, 1);
        EXPECT_LE(tokens, std::max<std::int64_t>(length / 4, 1));
      }
    }
  }
  EXPECT_TRUE(sample_documents(0, 1).empty());
}

TEST(DocumentSamplingTest, DependsOnTheSeedOnly) {
  EXPECT_EQ(sample_documents(65536, 7), sample_documents(65536, 7));
  EXPECT_NE(sample_documents(65536, 7), sample_documents(65536, 8));
}

TEST(DocumentSamplingTest, FollowsTheDistribution) {
  const std::vector<std::int64_t> documents = sample_documents(std::int64_t{1} << 27, 5);
  ASSERT_GT(documents.size(), 50'000u);  // a quarter of the pack is longer than any document
  double total = 0;
  for (const LengthBin& bin : document_length_bins()) total += bin.percent;
  for (const LengthBin& bin : document_length_bins()) {
    const auto inside = std::count_if(documents.begin(), documents.end(), [&](std::int64_t tokens) {
      return tokens >= bin.least && tokens <= bin.most;
    });
    const double expected = bin.percent / total;
    const double share = static_cast<double>(inside) / static_cast<double>(documents.size());
    const double deviation = std::sqrt(expected / static_cast<double>(documents.size()));
    EXPECT_NEAR(share, expected, 5 * deviation) << bin.least << " to " << bin.most;
  }
}

}  // namespace
}  // namespace ringspan::bench
