// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// One GPU, as far as times and memory depend on it.
struct Gpu {
  std::string kind = {};  // such as "h800": what the times of kernels are known by
  int multiprocessors = 0;
  double flops_per_second = 0;  // dense, 16 bits
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_second = 0;  // as a copy attains it, reads and writes together
  double attention_speed = 1;          // of its kernels, relative to what is known of their kind

  bool operator==(const Gpu&) const = default;
};

/// What a message costs on top of the links that it crosses.
struct MessageRule {
  double latency_seconds = 0;
  double short_latency_seconds = 0;  // of a short one, see ChannelRule
  int channels = 0;                  // per peer; 0: copy engines, which no channel limits
  double kernel_slowdown = 1;        // of the kernels at both ends meanwhile; 1 for copy engines
  double gap_seconds = 0;            // from one message of a rank to its next, at least
  double short_gap_seconds = 0;      // of a short one

  bool operator==(const MessageRule&) const = default;
};

/// How the GPUs of a node reach each other: a tree of GPUs, switches and NUMA domains. With NVLink
/// all are on one switch, and nothing above it counts.
struct NodeFabric {
  MessageRule messages = {};
  double gpu_bytes_per_second = 0;  // a GPU's port, each way: all of its NVLinks, or its PCIe link
  int gpus_per_switch = 0;
  double switch_bytes_per_second = 0;  // from a switch to the root of its domain, each way
  int numa_domains = 1;
  double socket_bytes_per_second = 0;  // from a domain to the others, each way

  bool operator==(const NodeFabric&) const = default;
};

/// How nodes reach each other. Adapter i of each node is on rail i; a GPU uses the adapter of its
/// own index, where there are fewer, neighbours share one.
struct Network {
  MessageRule messages = {};
  int adapters_per_node = 0;
  double adapter_bytes_per_second = 0;  // each way
  bool behind_gpu_port = false;         // bytes to other nodes pass the GPU's port, too
  /// So many nodes have each rail on one leaf switch. Other leaves, and other rails, are reached
  /// over links of the leaf's adapters together, over oversubscription. 0: all nodes.
  int nodes_per_leaf = 0;
  double oversubscription = 1;

  bool operator==(const Network&) const = default;
};

/// How NCCL cuts a message to one peer into channels, each of which has bounded bandwidth. There
/// are as few as the scarcest peer of the group allows, halved while ranks times channels exceed
/// the slots; in a group on one node doubled again while a channel's part is too large.
struct ChannelRule {
  double bytes_per_second = 0;
  int slots_in_node = 32;
  int slots_between_nodes = 256;
  std::int64_t largest_part_bytes = 16ll << 20;
  std::int64_t short_part_bytes = 16ll << 10;  // up to here a message is short (protocol LL),
  double short_bandwidth_share = 0.5;          // and its flags take the rest of the bandwidth

  bool operator==(const ChannelRule&) const = default;
};

/// A cluster of equal nodes, as the simulated transport takes it. Plain data with units in the
/// names; rates are what software attains.
struct Cluster {
  std::string name = {};
  int nodes = 1;
  int gpus_per_node = 1;
  Gpu gpu = {};
  NodeFabric fabric = {};
  Network network = {};  // of several nodes
  ChannelRule channels = {};
  double issue_seconds = 0;  // of the host, per kernel, copy and post
  int launch_queue = 1024;   // operations that a host may be ahead of its GPU
  double kernel_noise = 0;   // relative standard deviation of times, log-normal
  double message_noise = 0;  // the same of what messages take on their links
  std::uint64_t noise_seed = 0;

  int gpus() const { return nodes * gpus_per_node; }
  bool operator==(const Cluster&) const = default;
};

/// What is wrong with it, a line per broken rule.
std::vector<std::string> broken_rules(const Cluster& cluster);

/// Where ranks sit, at least one, that fill node after node; so many on each, 0: as many as it has
/// GPUs. Throws invalid_argument if the cluster cannot hold them, or breaks a rule.
std::vector<Place> places(const Cluster& cluster, int ranks, int ranks_per_node = 0);

/// The same cluster with no more nodes than these ranks fill. Links of its leaf switches remain.
Cluster without_empty_nodes(Cluster cluster, int ranks, int ranks_per_node = 0);

/// The group that a message belongs to.
struct GroupExtent {
  int ranks = 1;
  bool on_one_node = true;
};

/// A message between two GPUs, apart from what contention does to it.
struct MessageModel {
  double latency_seconds = 0;
  double wire_bytes = 0;             // that its links carry
  double most_bytes_per_second = 0;  // infinite: no cap but the links
  double kernel_slowdown = 1;
  double gap_seconds = 0;
};
MessageModel model_message(const Cluster& cluster, const GroupExtent& group, bool between_nodes,
                           std::int64_t bytes);

/// What algorithms are chosen by, of large messages while all ranks of the group send.
MessageCosts message_costs(const Cluster& cluster, const GroupExtent& group);

}  // namespace ringspan::comm
