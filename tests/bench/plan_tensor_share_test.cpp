// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/ask/cluster_file.hpp"
#include "bench/plan/mix.hpp"
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

struct NodeShape {
  int gpus, domains, per_switch, adapters;
};
constexpr NodeShape kShapes[] = {{6, 2, 6, 6}, {6, 2, 3, 2},  {6, 1, 2, 3},  {9, 3, 3, 3},
                                 {8, 4, 2, 8}, {10, 2, 5, 5}, {12, 2, 3, 4}, {12, 4, 1, 6}};

// Parts that do not divide a share are described as fewer, which together are as fast.
TEST(TensorShareTest, NodesOfAnyShapeHaveLegalSharesOfAllTheirLinks) {
  for (const NodeShape& shape : kShapes) {
    comm::Cluster cluster = read_cluster("a100-pcie");
    cluster.gpus_per_node = shape.gpus;
    cluster.fabric.numa_domains = shape.domains;
    cluster.fabric.gpus_per_switch = shape.per_switch;
    cluster.network.adapters_per_node = shape.adapters;
    ASSERT_TRUE(comm::broken_rules(cluster).empty()) << comm::broken_rules(cluster).front();
    for (const int tensor : divisors(shape.gpus)) {
      const comm::Cluster share = tensor_share(cluster, tensor);
      EXPECT_TRUE(comm::broken_rules(share).empty())
          << shape.gpus << " GPUs, " << tensor << ": " << comm::broken_rules(share).front();
      const auto switches = [](const comm::Cluster& of) {
        return of.fabric.switch_bytes_per_second * (of.gpus_per_node / of.fabric.gpus_per_switch);
      };
      const auto adapters = [](const comm::Cluster& of) {
        return of.network.adapter_bytes_per_second * of.network.adapters_per_node;
      };
      EXPECT_DOUBLE_EQ(switches(share) * tensor, switches(cluster));
      EXPECT_DOUBLE_EQ(adapters(share) * tensor, adapters(cluster));
    }
  }
}

// Whichever domain a GPU is in, it is on the one switch of all.
TEST(TensorShareTest, OneSwitchRemainsOne) {
  comm::Cluster cluster = read_cluster("h100");
  cluster.gpus_per_node = cluster.fabric.gpus_per_switch = cluster.network.adapters_per_node = 6;
  cluster.fabric.numa_domains = 2;
  const comm::Cluster share = tensor_share(cluster, 2);
  EXPECT_EQ(share.gpus_per_node, 3);
  EXPECT_EQ(share.fabric.gpus_per_switch, 3);
  EXPECT_EQ(share.fabric.numa_domains, 1);
  EXPECT_EQ(share.network.adapters_per_node, 3);
  EXPECT_EQ(share.network.adapter_bytes_per_second, cluster.network.adapter_bytes_per_second);
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
