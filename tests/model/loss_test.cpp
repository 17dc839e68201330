// SPDX-License-Identifier: Apache-2.0
#include "model/loss.hpp"

#include <cmath>
#include <vector>

#include "comm/collectives.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::model {
namespace {

class LossSumTest : public testing::TestWithParam<int> {
 protected:
  void run(const comm::RankFunction& body) const {
    comm::test::launch({.ranks = GetParam(), .debug = {.ledger = true}}, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, LossSumTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return concat(info.param, "ranks"); });

/// Sums of these depend on the order of the additions.
LossSum part(int rank) {
  if (rank % 3 == 1) return {};  // no labels there
  return {std::ldexp(1.0 / (rank + 3), 20 * (rank % 2)), std::int64_t{1} << (10 * rank)};
}

TEST_P(LossSumTest, IsTheSumInRankOrderOnEveryRank) {
  run([](const comm::Communicator& world) {
    LossSum expected;
    for (int rank = 0; rank < world.size(); ++rank) {
      expected.sum += part(rank).sum;
      expected.count += part(rank).count;
    }
    EXPECT_EQ(all_reduce(world, part(world.rank())), expected);
  });
}

TEST_P(LossSumTest, StaysWithinItsGroup) {
  run([](const comm::Communicator& world) {
    const comm::Communicator group = world.split(world.rank() % 2, -world.rank());
    const LossSum total = all_reduce(group, {1.0 + world.rank() % 2, 1});
    EXPECT_EQ(total.count, group.size());
    EXPECT_EQ(total.mean(), 1.0 + world.rank() % 2);
  });
}

TEST_P(LossSumTest, MeanCountsTokensAndNotRanks) {
  run([](const comm::Communicator& world) {
    // One rank has 1000 tokens with loss 1, the others have one with loss 3.
    const bool most = world.rank() == world.size() - 1;
    const LossSum total = all_reduce(world, most ? LossSum{1000, 1000} : LossSum{3, 1});
    const double others = world.size() - 1;
    EXPECT_DOUBLE_EQ(total.mean(), (1000 + 3 * others) / (1000 + others));
  });
}

TEST_P(LossSumTest, IsZeroWhereNoRankHasALabel) {
  run([](const comm::Communicator& world) {
    const LossSum total = all_reduce(world, {});
    EXPECT_EQ(total.mean(), 0);
    EXPECT_EQ(0 * total.per_token(), 0);  // what a gradient of nothing is multiplied by is finite
  });
}

}  // namespace
}  // namespace ringspan::model
