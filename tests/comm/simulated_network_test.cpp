// SPDX-License-Identifier: Apache-2.0
// The simulated network against closed forms.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "comm/batch.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace {

constexpr std::int64_t kBytes = 1'000'000'000;

class SimulatedNetworkTest : public testing::Test {
 protected:
  /// Seconds until the GPU of every rank has done what its host queued.
  static std::vector<double> ends(int ranks, const RankFunction& body) {
    std::vector<double> result(ranks);
    test::simulate(test::plain_cluster(2), ranks, [&](const Communicator& comm) {
      body(comm);
      comm.device().synchronize(comm.deadline());
      result[comm.rank()] = comm.device().now();
    });
    return result;
  }

  static double last_end(int ranks, const RankFunction& body) {
    const std::vector<double> all = ends(ranks, body);
    return *std::max_element(all.begin(), all.end());
  }

  static Request transfer(const Communicator& comm, int from, int to, std::int64_t bytes) {
    Batch batch;
    if (comm.rank() == from) batch.send(to, whole(comm.device().allocate(bytes)));
    if (comm.rank() == to) batch.receive(from, whole(comm.device().allocate(bytes)));
    return std::move(batch).post(comm, "transfer");
  }
};

#define EXPECT_SECONDS(actual, expected) EXPECT_NEAR(actual, expected, 1e-6 * (expected))

TEST_F(SimulatedNetworkTest, ARingTakesLatencyAndBytesPerHop) {
  const double seconds = last_end(8, [](const Communicator& comm) {
    const Buffer sent = comm.device().allocate(kBytes), received = comm.device().allocate(kBytes);
    post_pair(comm, "hop", comm.next(), whole(sent), comm.prev(), whole(received)).wait();
  });
  EXPECT_SECONDS(seconds, 6.251e-3);
}

}  // namespace
}  // namespace ringspan::comm
