// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/simulator.hpp"

#include <cmath>
#include <utility>

#include "bench/ask/cluster_file.hpp"
#include "bench/run/simulation_process.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

comm::Cluster naive(comm::Cluster cluster) {
  constexpr double kNothing = 1e-15;  // a cluster has no infinite rates
  cluster.issue_seconds *= kNothing;
  cluster.gpu.memory_bytes_per_second /= kNothing;
  cluster.fabric.messages = {};
  cluster.fabric.gpus_per_switch = cluster.gpus_per_node;
  comm::Network& network = cluster.network;
  network.messages = {};
  network.adapter_bytes_per_second *= 1.0 * network.adapters_per_node / cluster.gpus_per_node;
  network.adapters_per_node = cluster.gpus_per_node;
  network.nodes_per_leaf = 0;
  network.oversubscription = 1;  // which slows messages from rail to rail even on one leaf
  network.behind_gpu_port = false;
  return cluster;
}

}  // namespace

const comm::Cluster& Simulator::cluster(const std::string& name) {
  if (const auto found = clusters_.find(name); found != clusters_.end()) return found->second;
  const comm::Cluster described = read_cluster(name);
  return clusters_.emplace(name, model_ == Model::naive ? naive(described) : described)
      .first->second;
}

const Measurement& Simulator::measure(const Point& point, const Change& change) {
  const auto key = std::pair(point, change);
  if (const auto found = measured_.find(key); found != measured_.end()) return found->second;
  comm::Cluster used = cluster(point.cluster);
  if (change.bare) used = naive(used);
  used.gpu.attention_speed *= change.attention_speed;
  used.channels.largest_part_bytes *= change.messages_per_hop;
  Point settled = point;
  settle(settled, {.names = {}, .numbers = {}, .models = {}, .clusters = {{point.cluster, used}}});
  return measured_.emplace(key, simulate_apart(settled, {}, used)).first->second;
}

double Simulator::seconds(const Anchor& anchor, double attention_speed) {
  double sum = 0;
  for (const Point& point : anchor.points) {
    const Change change{attention_speed, anchor.messages_per_hop, anchor.bare};
    sum += measure(point, change).times.overlapped[0];
  }
  return sum / static_cast<double>(anchor.points.size());
}

/// By how much the anchors take longer than was published, on average: a logarithm.
double Simulator::slowness(const Calibration& calibration, double attention_speed) {
  double sum = 0;
  for (const Anchor& anchor : calibration.anchors) {
    sum += std::log(seconds(anchor, attention_speed) / anchor.published_seconds);
  }
  return sum / static_cast<double>(calibration.anchors.size());
}

/// By secants, over the logarithm of the speed: times are nearly straight lines of it.
double Simulator::attention_speed(const Calibration& calibration) {
  if (calibration.anchors.empty()) return 1;
  constexpr double kClose = 1e-6, kFarthest = 5;
  constexpr int kMostSteps = 20;
  double last = 0, last_slowness = slowness(calibration, 1);
  if (std::abs(last_slowness) < kClose) return 1;
  double next = last_slowness;  // were attention all that takes time
  for (int step = 0; step < kMostSteps && std::abs(next) < kFarthest; ++step) {
    const double now = slowness(calibration, std::exp(next));
    if (std::abs(now) < kClose) return std::exp(next);
    const double slope = (now - last_slowness) / (next - last);
    if (!(slope < 0)) break;
    last = std::exchange(next, next - now / slope);
    last_slowness = now;
  }
  RINGSPAN_REQUIRE(false, calibration.name, ": no speed of attention meets ",
                   calibration.anchors.front().name.row,
                   calibration.anchors.size() > 1 ? " and its like" : "",
                   ": by this model all else takes longer already");
  return 0;
}

}  // namespace ringspan::bench
