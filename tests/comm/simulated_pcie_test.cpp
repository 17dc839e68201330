// SPDX-License-Identifier: Apache-2.0
// A PCIe tree and an oversubscribed network against closed forms: four nodes of 8 GPUs, 20 GB/s
// each, 2 on a switch whose link has 30 GB/s, 4 in a NUMA domain, 25 GB/s between the two; 2
// adapters of 10 GB/s behind the GPUs' ports; leaves of 2 nodes, oversubscribed twice. No latency
// in a node, and 10 us from message to message; 3 us between nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "comm/batch.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_pcie_test {

Cluster cluster() {
  Cluster result = test::plain_cluster(4);
  result.fabric = {.messages = {.gap_seconds = 10e-6},
                   .gpu_bytes_per_second = 20e9,
                   .gpus_per_switch = 2,
                   .switch_bytes_per_second = 30e9,
                   .numa_domains = 2,
                   .socket_bytes_per_second = 25e9};
  result.network = {.messages = {.latency_seconds = 3e-6},
                    .adapters_per_node = 2,
                    .adapter_bytes_per_second = 10e9,
                    .behind_gpu_port = true,
                    .nodes_per_leaf = 2,
                    .oversubscription = 2};
  return result;
}

struct Flow {
  int from, to;
  double gigabytes, milliseconds;
};

/// All at once; each must end when it is said to.
void expect_ends(const std::vector<Flow>& flows) {
  test::simulate(cluster(), 32, [&](const Communicator& comm) {
    std::vector<Request> requests;
    for (const Flow& flow : flows) {
      const auto bytes = static_cast<std::int64_t>(flow.gigabytes * 1e9);
      Batch batch;
      if (flow.from == comm.rank()) batch.send(flow.to, whole(comm.device().allocate(bytes)));
      if (flow.to == comm.rank()) batch.receive(flow.from, whole(comm.device().allocate(bytes)));
      requests.push_back(std::move(batch).post(comm, "flow"));
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      requests[i].wait();
      if (flows[i].to != comm.rank()) continue;
      comm.device().synchronize(comm.deadline());
      EXPECT_NEAR(comm.device().now(), flows[i].milliseconds * 1e-3, 1e-7)
          << flows[i].from << " to " << flows[i].to;
    }
  });
}

TEST(SimulatedPcieTest, OneMessageIsBoundByTheNarrowestLinkOnItsWay) {
  expect_ends({{0, 1, 2, 100}});       // one switch
  expect_ends({{0, 2, 2, 100}});       // one domain
  expect_ends({{0, 4, 2, 100}});       // two domains
  expect_ends({{0, 8, 1, 100.003}});   // two nodes of a leaf, one rail
  expect_ends({{0, 16, 1, 100.003}});  // two leaves
}

TEST(SimulatedPcieTest, ARankSendsOneMessageAfterTheOther) {
  expect_ends({{0, 1, 2e-5, 1e-3}, {0, 2, 2e-5, 11e-3}, {0, 3, 2e-5, 21e-3}});
  expect_ends({{0, 3, 2e-5, 3e-3}, {1, 3, 2e-5, 3e-3}, {2, 3, 2e-5, 3e-3}});
}

TEST(SimulatedPcieTest, GpusOfASwitchShareItsLink) {
  expect_ends({{0, 2, 1.5, 100}, {1, 3, 1.5, 100}});
  expect_ends({{0, 1, 2, 100}, {1, 0, 2, 100}});  // which messages inside do not pass
}

TEST(SimulatedPcieTest, DomainsShareTheLinkBetweenThem) {
  expect_ends({{0, 4, 1, 80}, {2, 6, 1, 80}});
  expect_ends({{0, 4, 1.25, 62.5}, {2, 3, 1.25, 62.5}});  // the other stays below
}

TEST(SimulatedPcieTest, GpusShareAnAdapterAndItSharesTheirPort) {
  expect_ends({{0, 8, 0.5, 100.003}, {1, 9, 0.5, 100.003}});
  // 0 sends 10 GB/s to its adapter and 10 to its neighbour, which for 3 us gets all 20.
  expect_ends({{0, 8, 1, 100.003}, {0, 1, 1, 99.997}});
}

TEST(SimulatedPcieTest, OtherLeavesAndRailsAreOversubscribed) {
  // A rail of a leaf has 2 adapters of 10 GB/s and links of 10 GB/s up.
  expect_ends({{0, 16, 0.5, 100.003}, {8, 24, 0.5, 100.003}});
  expect_ends({{0, 12, 1, 100.003}, {8, 0, 1, 100.003}});  // another rail; and inside the leaf
}

}  // namespace simulated_pcie_test
}  // namespace ringspan::comm
