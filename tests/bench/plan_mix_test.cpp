// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bench/ask/cluster_file.hpp"
#include "bench/plan/mix.hpp"

namespace ringspan::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MixTest : public testing::Test {
 protected:
  static PlanOptions options(const std::string& cluster, std::int64_t ranks,
                             std::int64_t batch = 1) {
    return {model("llama3-8b"), read_cluster(cluster), ranks, 65536, batch, 80e9};
  }

  /// What there is of one degree, or of anything else.
  template <typename Value>
  static std::set<Value> all(const PlanOptions& options,
                             const std::function<Value(const Mix&)>& of) {
    std::set<Value> values;
    for (const Mix& mix : mixes(options)) values.insert(of(mix));
    return values;
  }
};

TEST_F(MixTest, DegreesMultiplyToTheRanks) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 8, 16, 24, 40, 64, 1024}) {
    for (const std::int64_t batch : {1, 6, 64}) {
      const std::vector<Mix> found = mixes(options("h800", ranks, batch));
      EXPECT_FALSE(found.empty()) << ranks << " ranks, batch " << batch;
      for (const Mix& mix : found) {
        EXPECT_EQ(mix.config.gpus(), ranks);
        EXPECT_EQ(mix.config.global_batch % (mix.config.data * mix.config.micro_batch), 0);
        EXPECT_EQ(mix.config.pipeline, 1);
      }
    }
  }
}

TEST_F(MixTest, IsThereOnce) {
  using Key = std::tuple<int, int, int, int, bool, std::int64_t, std::string_view>;
  for (const char* cluster : {"h800", "l20-pcie"}) {
    std::set<Key> seen;
    for (const Mix& mix : mixes(options(cluster, 16, 8))) {
      const TrainingConfig& c = mix.config;
      const Key key(c.data, c.tensor, c.ulysses, c.ring, c.ring_inner, c.micro_batch, mix.schedule);
      EXPECT_TRUE(seen.insert(key).second) << text(mix);
    }
  }
}

TEST_F(MixTest, SchedulesFollowFromTheDegrees) {
  for (const Mix& mix : mixes(options("h800", 16, 4))) {
    const bool ulysses = mix.config.ulysses > 1, ring = mix.config.ring > 1;
    EXPECT_EQ(mix.schedule == "none", !ulysses && !ring);
    EXPECT_EQ(mix.schedule == "none", mix.whole_sequences());
    EXPECT_EQ(mix.schedule == "ulysses", ulysses && !ring);
    EXPECT_EQ(mix.schedule == "usp", ulysses && ring);
    EXPECT_TRUE(mix.schedule == "usp" || !mix.config.ring_inner) << "nothing is inside nothing";
  }
}

TEST_F(MixTest, EveryRankHasAHead) {
  PlanOptions few = options("h800", 64);
  few.model.heads = 40;
  few.model.kv_heads = 8;
  int most = 0;
  for (const Mix& mix : mixes(few)) {
    most = std::max(most, mix.config.ulysses);
    EXPECT_LE(mix.config.ulysses * mix.config.tensor, 40);
  }
  EXPECT_EQ(most, 32) << "heads may be uneven: two for some, one for others";
}

TEST_F(MixTest, TensorGroupsStayInsideANodeAndShareHeads) {
  const auto tensor = [](const Mix& mix) { return mix.config.tensor; };
  EXPECT_THAT(all<int>(options("h800", 64), tensor), ElementsAre(1, 2, 4, 8));
  PlanOptions uneven = options("h800", 8);
  uneven.model.heads = uneven.model.kv_heads = 6;
  EXPECT_THAT(all<int>(uneven, tensor), ElementsAre(1, 2)) << "4 does not divide 6 heads";
}

TEST_F(MixTest, GroupsAreWholeNodesOrEvenPartsOfOne) {
  for (const Mix& mix : mixes(options("h800", 24, 24))) {
    const std::int64_t group = mix.config.tensor * mix.config.sequence_parallel();
    EXPECT_TRUE(8 % group == 0 || group % 8 == 0) << text(mix);
  }
}

TEST_F(MixTest, NeighboursMatterOnlyWhereSomeAreNearer) {
  const auto inner_rings = [](const std::string& cluster, std::int64_t ranks) {
    const std::vector<Mix> found = mixes(options(cluster, ranks));
    return std::count_if(found.begin(), found.end(),
                         [](const Mix& mix) { return mix.config.ring_inner; });
  };
  EXPECT_EQ(inner_rings("h800", 8), 0);
  EXPECT_GT(inner_rings("h800", 16), 0);
  EXPECT_GT(inner_rings("l20-pcie", 8), 0);
}

TEST_F(MixTest, DataParallelDegreesDivideTheBatch) {
  const auto data = [](const Mix& mix) { return mix.config.data; };
  EXPECT_THAT(all<int>(options("h800", 16, 12), data), ElementsAre(1, 2, 4));
  EXPECT_THAT(all<int>(options("h800", 16, 7), data), ElementsAre(1));
}

TEST_F(MixTest, MixturesOfExpertsHaveNone) {
  PlanOptions experts = options("h800", 8);
  experts.model = model("qwen3-235b");
  EXPECT_THAT(mixes(experts), IsEmpty());
}

TEST_F(MixTest, TextLeavesOutWhatIsOne) {
  Mix mix;
  mix.schedule = "none";
  EXPECT_EQ(text(mix), "one GPU");
  mix.config.data = 2;
  EXPECT_EQ(text(mix), "data 2");
  mix.config.ulysses = 8;
  mix.config.ring = 4;
  mix.schedule = "usp";
  EXPECT_EQ(text(mix), "data 2 x ulysses 8 x ring 4 (usp)");
  mix.config.ring_inner = true;
  EXPECT_EQ(text(mix), "data 2 x ulysses 8 x ring 4 (usp, ring inner)");
}

}  // namespace
}  // namespace ringspan::bench
