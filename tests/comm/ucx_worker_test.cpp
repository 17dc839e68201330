// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "comm/transports/ucx/worker.hpp"
#include "tests/comm/forked_ranks.hpp"

namespace ringspan::comm::ucx {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kDeadline = 20.0;

TEST(RetiredWorkersTest, StayUntilAllOfTheirLaunchHaveComeToALaterOneOrEnded) {
  const auto statuses = fork_ranks(2, kDeadline, [](const Bootstrap& bootstrap) {
    const auto meet = [&] { return exchange_addresses(bootstrap, {std::byte{1}}, kDeadline); };
    const std::vector<Address> all = meet();
    if (bootstrap.rank == 0) {
      const std::vector<Address> own{all[0]};
      const std::vector<processes::ProcessIdentity> launched{all[0].process, all[1].process};
      retire(Worker(2), launched);
      require(destroy_retired(own) == 1, "who has not come may still connect");
      require(destroy_retired(all) == 0, "all have come");
      retire(Worker(2), launched);
      require(destroy_retired(own) == 1, "the other runs");
      meet();
      const auto end = Clock::now() + std::chrono::seconds(10);
      while (destroy_retired(own) != 0) require(Clock::now() < end, "the other has ended");
    } else {
      meet();
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace ringspan::comm::ucx
