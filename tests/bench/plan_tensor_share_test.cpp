// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/ask/cluster_file.hpp"
#include "bench/plan/tensor_share.hpp"

namespace ringspan::bench {
namespace {

TEST(TensorShareTest, OfOneIsTheCluster) {
  for (const std::string& name : known_clusters()) {
    const comm::Cluster cluster = read_cluster(name);
    EXPECT_EQ(tensor_share(cluster, 1), cluster);
  }
}

TEST(TensorShareTest, IsAClusterThatBreaksNoRule) {
  for (const std::string& name : known_clusters()) {
    for (const int tensor : {1, 2, 4, 8}) {
      const comm::Cluster share = tensor_share(read_cluster(name), tensor);
      EXPECT_TRUE(comm::broken_rules(share).empty())
          << name << ", " << tensor << ": " << comm::broken_rules(share).front();
      EXPECT_EQ(share.gpus_per_node, 8 / tensor);
    }
  }
}

TEST(TensorShareTest, PortsAndAdaptersOfOneGpuAreNotShared) {
  const comm::Cluster cluster = read_cluster("h800"), share = tensor_share(cluster, 4);
  EXPECT_EQ(share.fabric.gpu_bytes_per_second, cluster.fabric.gpu_bytes_per_second);
  EXPECT_EQ(share.fabric.gpus_per_switch, 2) << "all are on one switch, still";
  EXPECT_EQ(share.network.adapters_per_node, 2);
  EXPECT_EQ(share.network.adapter_bytes_per_second, cluster.network.adapter_bytes_per_second);
}

// Two GPUs on a switch, four in a domain with one adapter.
TEST(TensorShareTest, LinksOfSeveralGpusAreDivided) {
  const comm::Cluster cluster = read_cluster("a100-pcie");
  const comm::NodeFabric& whole = cluster.fabric;
  const double adapter = cluster.network.adapter_bytes_per_second;

  const comm::Cluster two = tensor_share(cluster, 2);
  EXPECT_EQ(two.fabric.gpus_per_switch, 1);
  EXPECT_EQ(two.fabric.switch_bytes_per_second, whole.switch_bytes_per_second / 2);
  EXPECT_EQ(two.fabric.numa_domains, 2);
  EXPECT_EQ(two.fabric.socket_bytes_per_second, whole.socket_bytes_per_second / 2);
  EXPECT_EQ(two.network.adapters_per_node, 2);
  EXPECT_EQ(two.network.adapter_bytes_per_second, adapter / 2);

  const comm::Cluster four = tensor_share(cluster, 4);
  EXPECT_EQ(four.fabric.switch_bytes_per_second, whole.switch_bytes_per_second / 2);
  EXPECT_EQ(four.fabric.socket_bytes_per_second, whole.socket_bytes_per_second / 4);
  EXPECT_EQ(four.network.adapters_per_node, 2);
  EXPECT_EQ(four.network.adapter_bytes_per_second, adapter / 4);

  const comm::Cluster eight = tensor_share(cluster, 8);
  EXPECT_EQ(eight.fabric.numa_domains, 1);
  EXPECT_EQ(eight.network.adapters_per_node, 1);
  EXPECT_EQ(eight.network.adapter_bytes_per_second, adapter / 4) << "the other four use the other";
}

}  // namespace
}  // namespace ringspan::bench
