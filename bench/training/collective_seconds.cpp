// SPDX-License-Identifier: Apache-2.0
#include "bench/training/collective_seconds.hpp"

#include <algorithm>

namespace ringspan::bench {
namespace {

constexpr double kStartSeconds = 8.4e-6;  // NCCL, tuning.cc: base latency of Simple, once

bool between_nodes(const comm::Cluster& cluster, const RankGroup& group) {
  return cluster.nodes > 1 && group.size * group.stride > cluster.gpus_per_node;
}

/// Of the slowest link that rings of all such groups pass. Into and out of a switch, a NUMA domain,
/// a node or a leaf goes one ring for each group that has ranks in it.
double bytes_per_second(const comm::Cluster& cluster, const RankGroup& group) {
  const comm::NodeFabric& fabric = cluster.fabric;
  const comm::Network& network = cluster.network;
  double slowest = fabric.gpu_bytes_per_second;
  const auto cross = [&](std::int64_t domain, double link) {
    if (group.size * group.stride <= domain) return;
    slowest = std::min(slowest, link / static_cast<double>(std::min(group.stride, domain)));
  };
  const int gpus = cluster.gpus_per_node;
  if (fabric.gpus_per_switch < gpus) cross(fabric.gpus_per_switch, fabric.switch_bytes_per_second);
  if (fabric.gpus_per_switch < gpus && fabric.numa_domains > 1) {
    cross(gpus / fabric.numa_domains, fabric.socket_bytes_per_second);
  }
  if (cluster.nodes == 1) return slowest;
  const double node = network.adapters_per_node * network.adapter_bytes_per_second;
  cross(gpus, node);
  if (network.nodes_per_leaf > 0) {
    cross(std::int64_t{gpus} * network.nodes_per_leaf,
          node * network.nodes_per_leaf / network.oversubscription);
  }
  return slowest;
}

/// Of what a GPU sends one share goes over the network, as each rank of a node has a part of the
/// rings there.
CollectiveCost cost_of_bytes(const comm::Cluster& cluster, const RankGroup& group, double bytes) {
  if (!between_nodes(cluster, group)) {
    return {0, bytes, 0, cluster.fabric.messages.kernel_slowdown};
  }
  const double in_node =
      std::max(1.0, static_cast<double>(cluster.gpus_per_node) / static_cast<double>(group.stride));
  return {0, bytes * (1 - 1 / in_node), bytes / in_node, cluster.network.messages.kernel_slowdown};
}

}  // namespace

CollectiveCost gather_cost(const comm::Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.size == 1) return {};
  const auto size = static_cast<double>(group.size);
  const bool far = between_nodes(cluster, group);
  const comm::MessageRule& messages = far ? cluster.network.messages : cluster.fabric.messages;
  const double hop = messages.latency_seconds, sent = bytes * (size - 1) / size;
  CollectiveCost cost = cost_of_bytes(cluster, group, sent);
  cost.seconds = hop + (size - 2) * std::max(0.0, hop - kStartSeconds) +
                 sent / bytes_per_second(cluster, group);
  return cost;
}

CollectiveCost message_cost(const comm::Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.size == 1) return {};
  const bool far = between_nodes(cluster, group);
  const comm::MessageModel model = comm::model_message(
      cluster, {static_cast<int>(group.size), !far}, far, static_cast<std::int64_t>(bytes));
  double rate = std::min(bytes_per_second(cluster, group), model.most_bytes_per_second);
  if (far) rate = std::min(rate, cluster.network.adapter_bytes_per_second);
  return {model.latency_seconds + model.wire_bytes / rate, far ? 0 : bytes, far ? bytes : 0,
          model.kernel_slowdown};
}

double overlapped_seconds(double kernel_seconds, double message_seconds, double slowdown) {
  const double slowed = kernel_seconds + message_seconds * (1 - 1 / slowdown);
  return std::max(slowed, message_seconds);
}

}  // namespace ringspan::bench
