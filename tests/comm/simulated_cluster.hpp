// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "comm/launch.hpp"

namespace ringspan::comm::test {

/// Round figures: nodes of 8 GPUs on one switch at 160 GB/s each way, and an adapter of 40 GB/s for
/// each; a message takes 1 us inside a node and 5 us between nodes on top of its bytes; copy
/// engines, no slow-down; memory of 2 TB/s; the host needs 1 ns per operation.
inline Cluster plain_cluster(int nodes = 1, int gpus = 8) {
  Cluster cluster;
  cluster.name = "plain";
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus;
  cluster.gpu = {.kind = "plain",
                 .multiprocessors = 100,
                 .flops_per_second = 1e15,
                 .memory_bytes = 80'000'000'000,
                 .memory_bytes_per_second = 2e12};
  cluster.fabric = {.messages = {.latency_seconds = 1e-6},
                    .gpu_bytes_per_second = 160e9,
                    .gpus_per_switch = gpus};
  cluster.network = {.messages = {.latency_seconds = 5e-6},
                     .adapters_per_node = gpus,
                     .adapter_bytes_per_second = 40e9};
  cluster.channels.bytes_per_second = 20e9;
  cluster.issue_seconds = 1e-9;
  return cluster;
}

inline void simulate(const Cluster& cluster, int ranks, const RankFunction& body,
                     LaunchOptions options = {}) {
  options.ranks = ranks;
  options.cluster = std::make_shared<const Cluster>(cluster);
  launch("simulated", options, body);
}

}  // namespace ringspan::comm::test
