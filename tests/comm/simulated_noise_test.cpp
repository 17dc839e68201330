// SPDX-License-Identifier: Apache-2.0
// Seeded noise on kernels and messages: as large as it is told to be, and the same in every run.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "comm/batch.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_noise_test {

constexpr int kSamples = 4000;

Cluster cluster() {
  Cluster result = test::plain_cluster();
  result.kernel_noise = 0.1;
  result.message_noise = 0.3;
  result.noise_seed = 7;
  result.fabric.messages.latency_seconds = 0;
  return result;
}

/// Of each rank, seconds of operations that one by one take a millisecond without noise.
std::vector<std::vector<double>> seconds(const RankFunction& operation) {
  std::vector<std::vector<double>> result(2);
  test::simulate(cluster(), 2, [&](const Communicator& comm) {
    for (int i = 0; i < kSamples; ++i) {
      const double start = comm.device().now();
      operation(comm);
      comm.device().synchronize(comm.deadline());
      result[comm.rank()].push_back(comm.device().now() - start);
    }
  });
  return result;
}

void expect_noise(const std::vector<double>& samples, double deviation) {
  double sum = 0, squares = 0;
  for (const double sample : samples) sum += sample, squares += sample * sample;
  const double mean = sum / kSamples, variance = squares / kSamples - mean * mean;
  EXPECT_NEAR(mean, 1e-3, 4e-3 * deviation / std::sqrt(kSamples));
  EXPECT_NEAR(std::sqrt(variance), 1e-3 * deviation, 0.1e-3 * deviation);
}

TEST(SimulatedNoiseTest, KernelsVaryByTheirDeviation) {
  const auto kernel = [](const Communicator& comm) { comm.device().compute(1e-3, "kernel"); };
  const auto first = seconds(kernel), second = seconds(kernel);
  expect_noise(first[0], 0.1);
  expect_noise(first[1], 0.1);
  EXPECT_NE(first[0][0], first[1][0]);  // each rank on its own
  for (int i = 0; i < kSamples; ++i) EXPECT_NEAR(second[1][i], first[1][i], 1e-11);
}

TEST(SimulatedNoiseTest, MessagesVaryByTheirDeviation) {
  const auto message = [](const Communicator& comm) {
    const Buffer buffer = comm.device().allocate(160'000'000);
    Batch batch;
    if (comm.rank() == 0) batch.send(1, whole(buffer));
    if (comm.rank() == 1) batch.receive(0, whole(buffer));
    std::move(batch).post(comm, "message").wait();
  };
  expect_noise(seconds(message)[1], 0.3);
}

}  // namespace simulated_noise_test
}  // namespace ringspan::comm
