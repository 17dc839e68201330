// SPDX-License-Identifier: Apache-2.0
#include "comm/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

/// Collects what is wrong.
class Rules {
 public:
  template <typename... Parts>
  void require(bool kept, const Parts&... parts) {
    if (!kept) broken_.push_back(concat(parts...));
  }
  void positive(double value, std::string_view name) {
    require(std::isfinite(value) && value > 0, name, " is ", value, "; it must be positive");
  }
  void not_negative(double value, std::string_view name) {
    require(std::isfinite(value) && value >= 0, name, " is ", value, "; it must not be negative");
  }
  void at_least(double value, double least, std::string_view name) {
    require(std::isfinite(value) && value >= least, name, " is ", value, "; it must be at least ",
            least);
  }
  template <typename Number>
  void at_most(Number value, Number most, std::string_view name) {
    require(value <= most, name, " is ", value, "; the most is ", most);
  }
  void divides(int part, int whole, std::string_view name, std::string_view of) {
    require(part >= 1 && whole % std::max(part, 1) == 0, name, " is ", part,
            "; it must be at least 1 and divide ", of, ", ", whole);
  }

  std::vector<std::string> broken() && { return std::move(broken_); }

 private:
  std::vector<std::string> broken_;
};

// So that no product of them wraps; no cluster comes near.
constexpr int kMostGpus = 1 << 20, kMostChannels = 1 << 16;
constexpr std::int64_t kMostPartBytes = std::int64_t{1} << 40;

void check(Rules& rules, const MessageRule& messages, const std::string& where) {
  rules.not_negative(messages.latency_seconds, where + ".latency_seconds");
  rules.not_negative(messages.short_latency_seconds, where + ".short_latency_seconds");
  rules.not_negative(messages.channels, where + ".channels");
  rules.at_most(messages.channels, kMostChannels, where + ".channels");
  rules.at_least(messages.kernel_slowdown, 1, where + ".kernel_slowdown");
  rules.not_negative(messages.gap_seconds, where + ".gap_seconds");
  rules.not_negative(messages.short_gap_seconds, where + ".short_gap_seconds");
}

void check(Rules& rules, const Gpu& gpu) {
  rules.require(!gpu.kind.empty(), "gpu.kind is missing");
  rules.at_least(gpu.multiprocessors, 1, "gpu.multiprocessors");
  rules.positive(gpu.flops_per_second, "gpu.flops_per_second");
  rules.positive(static_cast<double>(gpu.memory_bytes), "gpu.memory_bytes");
  rules.positive(gpu.memory_bytes_per_second, "gpu.memory_bytes_per_second");
  rules.positive(gpu.attention_speed, "gpu.attention_speed");
}

void check(Rules& rules, const NodeFabric& fabric, int gpus) {
  check(rules, fabric.messages, "fabric");
  rules.positive(fabric.gpu_bytes_per_second, "fabric.gpu_bytes_per_second");
  rules.divides(fabric.numa_domains, gpus, "fabric.numa_domains", "gpus_per_node");
  rules.divides(fabric.gpus_per_switch, gpus, "fabric.gpus_per_switch", "gpus_per_node");
  if (fabric.gpus_per_switch == gpus) return;
  rules.positive(fabric.switch_bytes_per_second, "fabric.switch_bytes_per_second");
  if (fabric.numa_domains <= 1) return;
  rules.positive(fabric.socket_bytes_per_second, "fabric.socket_bytes_per_second");
  rules.require(gpus / fabric.numa_domains % std::max(fabric.gpus_per_switch, 1) == 0,
                "fabric.gpus_per_switch is ", fabric.gpus_per_switch,
                "; it must divide the GPUs of a NUMA domain, ", gpus / fabric.numa_domains);
}

void check(Rules& rules, const Network& network, int gpus) {
  check(rules, network.messages, "network");
  rules.divides(network.adapters_per_node, gpus, "network.adapters_per_node", "gpus_per_node");
  rules.positive(network.adapter_bytes_per_second, "network.adapter_bytes_per_second");
  rules.not_negative(network.nodes_per_leaf, "network.nodes_per_leaf");
  rules.at_least(network.oversubscription, 1, "network.oversubscription");
}

void check(Rules& rules, const ChannelRule& channels) {
  rules.positive(channels.bytes_per_second, "channels.bytes_per_second");
  rules.at_least(channels.slots_in_node, 1, "channels.slots_in_node");
  rules.at_least(channels.slots_between_nodes, 1, "channels.slots_between_nodes");
  rules.positive(static_cast<double>(channels.largest_part_bytes), "channels.largest_part_bytes");
  rules.at_most(channels.largest_part_bytes, kMostPartBytes, "channels.largest_part_bytes");
  rules.not_negative(static_cast<double>(channels.short_part_bytes), "channels.short_part_bytes");
  rules.at_most(channels.short_part_bytes, kMostPartBytes, "channels.short_part_bytes");
  rules.require(channels.short_bandwidth_share > 0 && channels.short_bandwidth_share <= 1,
                "channels.short_bandwidth_share is ", channels.short_bandwidth_share,
                "; it must be positive and at most 1");
}

/// How many channels a message gets; 0: it needs none.
int channels_of(const Cluster& cluster, const GroupExtent& group, bool between_nodes,
                std::int64_t bytes) {
  const int in_node = cluster.fabric.messages.channels;
  const int between = cluster.network.messages.channels;
  const int own = between_nodes ? between : in_node;
  if (own == 0) return 0;
  const int scarcest =
      group.on_one_node || in_node == 0 || between == 0 ? own : std::min(in_node, between);
  const ChannelRule& rule = cluster.channels;
  const int slots = group.on_one_node ? rule.slots_in_node : rule.slots_between_nodes;
  int channels = scarcest;
  while (channels > 1 && std::int64_t{channels} * group.ranks > slots) channels /= 2;
  if (!group.on_one_node) return channels;
  while (2 * channels <= scarcest && bytes > channels * rule.largest_part_bytes) channels *= 2;
  return channels;
}

}  // namespace

std::vector<std::string> broken_rules(const Cluster& cluster) {
  Rules rules;
  rules.at_least(cluster.nodes, 1, "nodes");
  rules.at_least(cluster.gpus_per_node, 1, "gpus_per_node");
  rules.require(std::int64_t{cluster.nodes} * cluster.gpus_per_node <= kMostGpus, "nodes is ",
                cluster.nodes, "; times gpus_per_node, ", cluster.gpus_per_node,
                ", it must be at most ", kMostGpus);
  check(rules, cluster.gpu);
  check(rules, cluster.fabric, cluster.gpus_per_node);
  if (cluster.nodes > 1) check(rules, cluster.network, cluster.gpus_per_node);
  const bool any_channels = cluster.fabric.messages.channels > 0 ||
                            (cluster.nodes > 1 && cluster.network.messages.channels > 0);
  if (any_channels) check(rules, cluster.channels);
  rules.positive(cluster.issue_seconds, "issue_seconds");
  rules.at_least(cluster.launch_queue, 1, "launch_queue");
  rules.not_negative(cluster.kernel_noise, "kernel_noise");
  rules.not_negative(cluster.message_noise, "message_noise");
  return std::move(rules).broken();
}

std::vector<Place> places(const Cluster& cluster, int ranks, int ranks_per_node) {
  const std::vector<std::string> broken = broken_rules(cluster);
  RINGSPAN_REQUIRE(broken.empty(), "cluster '", cluster.name, "': ", broken.front());
  RINGSPAN_REQUIRE(ranks >= 1, "cluster '", cluster.name, "': ", ranks,
                   " ranks; there must be at least 1");
  const int gpus = cluster.gpus_per_node, per_node = ranks_per_node > 0 ? ranks_per_node : gpus;
  RINGSPAN_REQUIRE(per_node <= gpus, "cluster '", cluster.name, "': ", per_node,
                   " ranks per node, but a node has ", gpus, " GPUs");
  RINGSPAN_REQUIRE(ranks <= std::int64_t{cluster.nodes} * per_node, "cluster '", cluster.name,
                   "': ", ranks, " ranks, but it holds ", cluster.nodes, " nodes of ", per_node);
  std::vector<Place> result;
  for (int rank = 0; rank < ranks; ++rank) {
    const int gpu = rank % per_node;
    const int rails = cluster.nodes > 1 ? cluster.network.adapters_per_node : gpus;
    result.push_back(
        {rank / per_node, gpu * cluster.fabric.numa_domains / gpus, gpu, gpu * rails / gpus});
  }
  return result;
}

Cluster without_empty_nodes(Cluster cluster, int ranks, int ranks_per_node) {
  // All nodes are on one leaf, whose links have the bandwidth of all their adapters, still.
  if (cluster.network.nodes_per_leaf == 0) cluster.network.nodes_per_leaf = cluster.nodes;
  cluster.nodes = places(cluster, ranks, ranks_per_node).back().node + 1;
  return cluster;
}

MessageModel model_message(const Cluster& cluster, const GroupExtent& group, bool between_nodes,
                           std::int64_t bytes) {
  const MessageRule& rule = between_nodes ? cluster.network.messages : cluster.fabric.messages;
  const int channels = channels_of(cluster, group, between_nodes, bytes);
  MessageModel model{rule.latency_seconds, static_cast<double>(bytes),
                     std::numeric_limits<double>::infinity(), rule.kernel_slowdown,
                     rule.gap_seconds};
  if (channels == 0) return model;
  model.most_bytes_per_second = channels * cluster.channels.bytes_per_second;
  if (bytes <= channels * cluster.channels.short_part_bytes) {
    model.latency_seconds = rule.short_latency_seconds;
    model.gap_seconds = rule.short_gap_seconds;
    model.wire_bytes /= cluster.channels.short_bandwidth_share;
  }
  return model;
}

MessageCosts message_costs(const Cluster& cluster, const GroupExtent& group) {
  // Of messages that are no reason for more channels.
  const auto costs = [&](bool between_nodes, double bytes_per_second) {
    const MessageRule& rule = between_nodes ? cluster.network.messages : cluster.fabric.messages;
    LinkCosts link{rule.latency_seconds, rule.gap_seconds, 1 / bytes_per_second};
    const int channels = channels_of(cluster, group, between_nodes, 0);
    if (channels == 0) return link;
    link.latency = rule.short_latency_seconds;
    link.long_latency = rule.latency_seconds - rule.short_latency_seconds;
    link.per_message = rule.short_gap_seconds;
    link.per_long_message = rule.gap_seconds - rule.short_gap_seconds;
    link.long_from = static_cast<double>(channels * cluster.channels.short_part_bytes + 1);
    return link;
  };
  MessageCosts result;
  result.intra_node = costs(false, cluster.fabric.gpu_bytes_per_second);
  result.copy_per_byte = 2 / cluster.gpu.memory_bytes_per_second;
  result.per_operation = cluster.issue_seconds;
  result.overlap = true;  // a gap says when the next message begins, and hosts run ahead
  if (group.on_one_node) return result;
  const Network& network = cluster.network;
  result.inter_node = costs(
      true, network.adapter_bytes_per_second * network.adapters_per_node / cluster.gpus_per_node);
  return result;
}

}  // namespace ringspan::comm
