// SPDX-License-Identifier: Apache-2.0
#include "bench/run/simulation_text.hpp"

#include <gtest/gtest.h>

#include "comm/error.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::bench {
namespace {

// A point that differs from another in one member must be told apart, or the wrong one would run.
TEST(SimulationTextTest, EveryMemberOfAPointArrives) {
  Point point{"simulated",
              "simulated",
              "./mine.toml",
              "modelled:fa2",
              "usp",
              "zigzag",
              "both",
              "bf16",
              64,
              8,
              4,
              16,
              2,
              7,
              "ring_inner",
              "hierarchical",
              "reference",
              "automatic",
              1 << 20,
              1 << 14,
              2,
              32,
              8,
              128,
              64,
              "causal"};
  comm::Cluster cluster = comm::test::plain_cluster(3, 4);
  cluster.name = "b200.like";
  cluster.gpu.memory_bytes_per_second = 1e27 / 3;
  cluster.network.behind_gpu_port = true;
  const SimulationTask task =
      simulation_task(text({point,
                            {.softmax_scale = 0.1, .softcap = 1e-300, .sinks = true, .seed = ~0ull},
                            cluster,
                            ModePair::one_of_them}));
  EXPECT_EQ(task.point, point);
  EXPECT_EQ(task.options.softmax_scale, 0.1);
  EXPECT_EQ(task.options.softcap, 1e-300);
  EXPECT_TRUE(task.options.sinks);
  EXPECT_EQ(task.options.seed, ~0ull);
  EXPECT_EQ(task.cluster, cluster);
  EXPECT_EQ(task.modes, ModePair::one_of_them);
  EXPECT_EQ(simulation_task(text({point, {}, cluster})).options.softcap, std::nullopt);
}

TEST(SimulationTextTest, AMeasurementKeepsEveryBit) {
  Measurement sent;
  sent.times.exact = true;
  sent.times.overlapped = {1.0 / 3};
  sent.times.kernel_overlapped = {5e-324};
  sent.sent = {{1ll << 62, 2, 3, 0}};
  sent.closed_form = {{4, 5, 6}};
  sent.peak_bytes = 7;
  const Measurement received = measurement(text(sent));
  EXPECT_TRUE(received.times.exact);
  EXPECT_EQ(received.times.overlapped, sent.times.overlapped);
  EXPECT_EQ(received.times.kernel_overlapped, sent.times.kernel_overlapped);
  ASSERT_EQ(received.sent.size(), 1u);
  EXPECT_EQ(received.sent[0].bytes_sent, 1ll << 62);
  EXPECT_EQ(received.sent[0].inter_node_bytes_sent, 2);
  EXPECT_EQ(received.sent[0].messages_sent, 3);
  EXPECT_EQ(received.closed_form, sent.closed_form);
  EXPECT_EQ(received.peak_bytes, 7);
}

TEST(SimulationTextTest, AFailureIsThrownAsItWas) {
  try {
    measurement(text(Error(ErrorKind::timeout, "rank 3: \"no\" \xff")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_STREQ(error.what(), "rank 3: \"no\" \xef\xbf\xbd");
  }
}

}  // namespace
}  // namespace ringspan::bench
