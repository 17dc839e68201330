// SPDX-License-Identifier: Apache-2.0
#include "model/sample.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "comm/collectives.hpp"
#include "model/loss.hpp"
#include "model/mesh.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model {
namespace sample_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}
std::string refused_batch(const std::vector<Sample>& batch, std::int64_t length = 0) {
  return refusal([&] { common_sequence(batch, length); });
}

TEST(SampleTest, ABatchIsAsLongAsItsSamplesUnlessItIsPadded) {
  const Sample sample{.ids = {1, 2, 3, 4, 5}};
  const attention::Sequence own = common_sequence({{sample, sample}});
  EXPECT_EQ(own.length, 5);
  EXPECT_TRUE(own.documents.empty());
  const attention::Sequence padded = common_sequence({{sample}}, 8);
  EXPECT_EQ(padded.length, 8);
  EXPECT_EQ(padded.documents, std::vector<std::int64_t>{5});
}

TEST(SampleTest, PaddingLeavesDocumentsWhereTheyAre) {
  const Sample packed{.ids = {1, 2, 3, 4, 5, 6}, .documents = {2, 0, 3}};  // one token behind them
  const attention::Sequence padded = common_sequence({{packed}}, 10);
  EXPECT_EQ(padded.length, 10);
  EXPECT_EQ(padded.documents, packed.documents);
}

TEST(SampleTest, RefusesWhatCannotBeOneBatch) {
  EXPECT_THAT(refused_batch({}), HasSubstr("no samples"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}}, {.ids = {1, 2, 3}}}),
              AllOf(HasSubstr("3 tokens beside one of 2"), HasSubstr("pack them")));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}}, {.ids = {1, 2}, .documents = {1, 1}}}),
              HasSubstr("cut alike"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2, 3}}}, 2),
              AllOf(HasSubstr("3 tokens"), HasSubstr("length of 2")));
}

TEST(SampleTest, RefusesWhatIsNoSample) {
  EXPECT_THAT(refused_batch({{}}), HasSubstr("no tokens"));
  EXPECT_THAT(refused_batch({{.ids = {1, -1}}}), HasSubstr("id -1"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .documents = {3}}}), HasSubstr("3"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .targets = {1}}}), HasSubstr("1 targets for 2"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .targets = {1, -1}}}), HasSubstr("target -1"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .weights = {1}}}), HasSubstr("1 weights for 2"));
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .weights = {1, -1}}}), HasSubstr("weight -1"));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refused_batch({{.ids = {1, 2}, .weights = {1, kNan}}}), HasSubstr("weight nan"));
}

class SharedSampleTest : public testing::TestWithParam<int> {
 protected:
  comm::LaunchOptions options() const { return {.ranks = GetParam(), .debug = {.ledger = true}}; }
};

INSTANTIATE_TEST_SUITE_P(Ranks, SharedSampleTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return concat(info.param, "ranks"); });

/// As many samples as the number says, each of other lengths, with all that a sample may have.
std::vector<Sample> samples_of(int rank) {
  std::vector<Sample> batch(rank % 3);
  for (std::size_t entry = 0; entry < batch.size(); ++entry) {
    const auto tokens = static_cast<std::int64_t>(rank + entry + 1);
    Sample& sample = batch[entry];
    for (std::int64_t token = 0; token < tokens; ++token) {
      sample.ids.push_back(1'000'000'000'000 + rank * 100 + token);
    }
    if (entry == 1) {
      sample.documents = {1, 0, tokens - 1};
      sample.targets.assign(tokens, kIgnoredLabel);
      sample.weights.assign(tokens, 0.1f);
    }
  }
  return batch;
}

TEST_P(SharedSampleTest, AGroupTakesEachRanksSamplesInTurn) {
  comm::test::launch(options(), [](const comm::Communicator& world) {
    const std::vector<Sample> own = samples_of(world.rank());
    for (int turn = 0; turn < world.size(); ++turn) {
      const std::vector<Sample> batch = share(world, own, turn);
      EXPECT_EQ(batch, samples_of(turn)) << "of " << turn << " on " << world.rank();
      require_same(world, batch);
    }
  });
}

TEST_P(SharedSampleTest, TheCheckNamesTheRankThatDiffers) {
  comm::test::launch(options(), [](const comm::Communicator& world) {
    if (world.size() < 3) return;  // of two, either may be wrong
    for (int odd = 0; odd < world.size(); ++odd) {
      std::vector<Sample> batch{{.ids = {7, 8, 9}, .documents = {1, 2}}};
      if (world.rank() == odd) batch[0].documents = {2, 1};  // nothing else tells them apart
      EXPECT_THAT(refusal([&] { require_same(world, batch); }),
                  HasSubstr(concat("rank ", odd, " (", odd, " in the world) than")))
          << world.rank();
    }
  });
}

TEST_P(SharedSampleTest, TheCheckSeesEveryPartOfASample) {
  comm::test::launch(options(), [](const comm::Communicator& world) {
    const Sample sample{{1, 2, 3}, {3}, {1, 2, 3}, {1, 1, 1}};
    std::vector<Sample> others(6, sample);
    others[0].ids[2] = 4;
    others[1].documents = {};
    others[2].targets[0] = kIgnoredLabel;
    others[3].weights[1] = 0.5f;
    others[4].targets = {};
    others[5] = {{1, 2}, {2}, {1, 2}, {1, 1}};
    require_same(world, {{sample}});
    for (const Sample& other : others) {
      const bool last = world.rank() + 1 == world.size();
      const std::vector<Sample> batch{last && world.size() > 1 ? other : sample};
      const std::string message = refusal([&] { require_same(world, batch); });
      EXPECT_THAT(message, HasSubstr(world.size() > 1 ? "other ones" : "nothing"));
    }
  });
}

// One group of two has what the other has not: each is right by itself.
TEST(SampleGroupTest, GroupsOfAMeshHaveSamplesOfTheirOwn) {
  const MeshShape shape{.ring = 2, .replicate = 2};
  if (!comm::test::enough_processes(4)) GTEST_SKIP();
  comm::test::launch({.ranks = 4}, [&](const comm::Communicator& world) {
    const Mesh mesh(world, shape);
    const std::vector<Sample> batch = samples_of(1 + mesh.position().replicate);
    require_same(mesh.samples(), batch);
    EXPECT_THAT(refusal([&] { require_same(world, batch); }),
                HasSubstr("rank 2 (2 in the world), 3"));
    EXPECT_EQ(share(mesh.samples(), samples_of(world.rank()), 1),
              samples_of(1 + 2 * mesh.position().replicate));
  });
}

TEST(SampleGroupTest, WhatIsNoSampleIsSaidByItsRankAndHangsNobody) {
  const std::optional<Error> failure =
      comm::test::failure_of({.ranks = 3, .deadline = 10}, [](const comm::Communicator& world) {
        share(world, {{Sample{.ids = {world.rank() == 1 ? -5 : 5}}}}, 1);
      });
  if (!comm::test::enough_processes(3)) GTEST_SKIP();
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what(), HasSubstr("token id -5"));
}

}  // namespace sample_test
}  // namespace ringspan::model
