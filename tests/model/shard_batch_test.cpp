// SPDX-License-Identifier: Apache-2.0
#include "model/shard_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/error.hpp"
#include "model/loss.hpp"

namespace ringspan::model {
namespace {

using attention::LayoutKind;
using attention::Sequence;
using testing::Each;
using testing::ElementsAre;

constexpr std::int64_t kIgnored = kIgnoredLabel;

Tokens shard(const std::vector<Sample>& batch, LayoutKind layout, int ranks, int rank,
             std::int64_t length = 0, std::int64_t first_sample = 0) {
  const Sequence sequence = common_sequence(batch, length);
  return shard_batch(batch, sequence, attention::shard(layout, sequence, ranks, rank),
                     first_sample);
}

TEST(ShardBatchTest, LabelsOfContiguousShardsReachIntoTheNext) {
  const std::vector<Sample> batch{{.ids = {1, 2, 3, 4, 5, 6, 7, 8}}};
  EXPECT_THAT(shard(batch, LayoutKind::contiguous, 2, 0).labels, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(shard(batch, LayoutKind::contiguous, 2, 1).labels, ElementsAre(6, 7, 8, kIgnored));
}

TEST(ShardBatchTest, LabelsOfZigzagShardsAreThoseOfTheWholeSequence) {
  const std::vector<Sample> batch{{.ids = {0, 1, 2, 3, 4, 5, 6, 7}}};
  const Tokens early = shard(batch, LayoutKind::zigzag, 2, 0);
  EXPECT_THAT(early.ids, ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(early.labels, ElementsAre(1, 2, 7, kIgnored));
  EXPECT_THAT(shard(batch, LayoutKind::zigzag, 2, 1).labels, ElementsAre(3, 4, 5, 6));
}

TEST(ShardBatchTest, TheLastTokenOfADocumentHasNoLabel) {
  const std::vector<Sample> batch{{.ids = {10, 11, 12, 20, 30, 31}, .documents = {3, 0, 1, 2}}};
  const Tokens tokens = shard(batch, LayoutKind::contiguous, 1, 0);
  EXPECT_THAT(tokens.labels, ElementsAre(11, 12, kIgnored, kIgnored, 31, kIgnored));
  EXPECT_THAT(tokens.positions, ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_THAT(tokens.places, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ShardBatchTest, PaddingHasNothingOfWhatStoodThere) {
  Sample sample{.ids = {10, 11, 12, 99}, .documents = {3}};  // 99 belongs to no document
  const Tokens tokens = shard({sample}, LayoutKind::contiguous, 1, 0, 6);
  EXPECT_THAT(tokens.ids, ElementsAre(10, 11, 12, 0, 0, 0));
  EXPECT_THAT(tokens.labels, ElementsAre(11, 12, kIgnored, kIgnored, kIgnored, kIgnored));
  EXPECT_THAT(tokens.positions, ElementsAre(0, 1, 2, 0, 0, 0));
  EXPECT_THAT(tokens.places, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ShardBatchTest, IgnoredTargetsAndWeightsMoveWithTheTokenThatIsPredicted) {
  const Sample sample{.ids = {1, 2, 3, 4, 5},
                      .targets = {kIgnored, kIgnored, 3, 4, 6},
                      .weights = {9, 8, 0.5f, 0, 2}};
  const Tokens tokens = shard({sample}, LayoutKind::contiguous, 1, 0);
  EXPECT_THAT(tokens.labels, ElementsAre(kIgnored, 3, kIgnored, 6, kIgnored));
  EXPECT_THAT(tokens.weights, ElementsAre(0, 0.5f, 0, 2, 0));
}

TEST(ShardBatchTest, UnweightedSamplesBesideWeightedOnesCountInFull) {
  const Sample weighted{.ids = {1, 2, 3}, .weights = {1, 0.25f, 0.75f}}, plain{.ids = {4, 5, 6}};
  const Tokens tokens = shard({weighted, plain}, LayoutKind::contiguous, 1, 0, 0, 40);
  EXPECT_EQ(tokens.batch, 2);
  EXPECT_THAT(tokens.ids, ElementsAre(1, 4, 2, 5, 3, 6));  // [tokens][batch]
  EXPECT_THAT(tokens.samples, ElementsAre(40, 41, 40, 41, 40, 41));
  EXPECT_THAT(tokens.weights, ElementsAre(0.25f, 1, 0.75f, 1, 0, 0));
  EXPECT_TRUE(shard({plain}, LayoutKind::contiguous, 1, 0).weights.empty());
}

TEST(ShardBatchTest, RefusesAShardOfAnotherSequence) {
  const std::vector<Sample> batch{{.ids = {1, 2, 3, 4}}};
  const Sequence sequence = common_sequence(batch), longer{8};
  const attention::Shard foreign = attention::shard(LayoutKind::contiguous, longer, 2, 1);
  try {
    shard_batch(batch, sequence, foreign);
    FAIL() << "a place that the sequence does not have was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("place 4 of a sequence of 4 tokens"));
  }
}

/// One row of a batch, by what the whole sample says of its place.
struct Row {
  std::int64_t id = 0, label = kIgnored, position = 0;
  friend bool operator==(const Row&, const Row&) = default;
};

/// Documents walked through token by token; no layout, no shift of arrays.
std::vector<Row> whole_rows(const Sample& sample, std::int64_t length) {
  std::vector<Row> rows;
  std::vector<std::int64_t> documents = sample.documents;
  if (documents.empty()) documents = {std::ssize(sample.ids)};
  for (std::int64_t document : documents) {
    for (std::int64_t position = 0; position < document; ++position) {
      const std::int64_t place = std::ssize(rows);
      const bool last = position + 1 == document;
      rows.push_back({sample.ids[place], last ? kIgnored : sample.ids[place + 1], position});
    }
  }
  rows.resize(length);
  return rows;
}

struct Case {
  std::vector<std::int64_t> documents;
  std::int64_t tokens, length;
};
const Case kCases[] = {
    {{}, 1, 0},     {{}, 2, 0},      {{}, 29, 0},           {{}, 13, 32},
    {{5, 3}, 8, 0}, {{4, 3}, 7, 10}, {{0, 1, 0, 1}, 2, 16}, {{3, 9, 1, 0, 11}, 26, 0},
};

// Every token once, on some rank, with what the whole sample has there; of as many labels.
TEST(ShardBatchTest, ShardsOfAnyNumberOfRanksHoldTheWholeBatchOnce) {
  for (const Case& one : kCases) {
    std::vector<Sample> batch(2);
    for (std::int64_t token = 0; token < one.tokens; ++token) {
      batch[0].ids.push_back(100 + token);
      batch[1].ids.push_back(500 - token);
    }
    batch[0].documents = batch[1].documents = one.documents;
    const std::int64_t length = common_sequence(batch, one.length).length;
    for (const auto layout : {LayoutKind::contiguous, LayoutKind::striped, LayoutKind::zigzag}) {
      for (const int ranks : {1, 2, 3, 4, 5, 7}) {
        SCOPED_TRACE(testing::Message()
                     << name(layout) << ", " << ranks << " ranks, " << one.tokens << " tokens");
        std::vector<std::vector<Row>> seen(2, std::vector<Row>(length));
        std::vector<int> times(2 * length);
        for (int rank = 0; rank < ranks; ++rank) {
          const Tokens tokens = shard(batch, layout, ranks, rank, one.length);
          for (std::int64_t row = 0; row < tokens.rows(); ++row) {
            const std::int64_t entry = row % 2, place = tokens.places[row];
            EXPECT_EQ(tokens.samples[row], entry);
            seen[entry][place] = {tokens.ids[row], tokens.labels[row], tokens.positions[row]};
            ++times[2 * place + entry];
          }
        }
        EXPECT_THAT(times, Each(1));
        for (int entry = 0; entry < 2; ++entry) {
          EXPECT_EQ(seen[entry], whole_rows(batch[entry], length));
        }
      }
    }
  }
}

TEST(ShardBatchTest, ARankWithPaddingAloneHasNoLabels) {
  const std::vector<Sample> batch{{.ids = {1, 2, 3, 4, 5}}};
  const Tokens tokens = shard(batch, LayoutKind::contiguous, 4, 3, 16);
  EXPECT_EQ(tokens.rows(), 4);
  EXPECT_THAT(tokens.labels, Each(kIgnored));
  EXPECT_THAT(shard(batch, LayoutKind::contiguous, 7, 6).ids, testing::IsEmpty());
}

TEST(ShardBatchTest, RefusesASequenceOfAnotherBatch) {
  const std::vector<Sample> batch{{.ids = {1, 2, 3}, .documents = {1, 2}}};
  const Sequence other{3, {2, 1}};
  EXPECT_THROW(shard_batch(batch, other, attention::shard(LayoutKind::zigzag, other, 1, 0)), Error);
}

}  // namespace
}  // namespace ringspan::model
