// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/attention_operator.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "bench/ask/cluster_file.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Words of hardware, most specific first.
struct Hardware {
  std::string_view words, cluster;
};
constexpr Hardware kHardware[] = {
    {"A100 PCIe", "a100-pcie"}, {"A100", "a100"}, {"A800", "a800"}, {"H100", "h100"},
    {"H200", "h200"},           {"H800", "h800"}, {"B200", "b200"}, {"L20", "l20-pcie"},
};

double mean_seconds(Simulator& simulator, const std::vector<Point>& points, double speed) {
  double seconds = 0;
  for (const Point& point : points) seconds += simulator.seconds(point, speed);
  return seconds / static_cast<double>(points.size());
}

}  // namespace

void add(Table& table, const std::vector<OperatorFigure>& figures) {
  std::map<std::string, std::shared_ptr<Calibration>> calibrations;
  for (const OperatorFigure& figure : figures) {
    std::shared_ptr<Calibration>& calibration = calibrations[figure.kernel];
    if (!calibration) calibration = std::make_shared<Calibration>(Calibration{figure.kernel, {}});
    if (!figure.anchor) continue;
    calibration->anchors.push_back(
        {figure.name, figure.points, 1 / figure.iterations_per_second, figure.bare});
  }
  for (const auto& [kernel, calibration] : calibrations) {
    if (!calibration->anchors.empty()) table.calibrations.push_back(*calibration);
  }
  for (const OperatorFigure& figure : figures) {
    if (figure.anchor) continue;
    const auto predict = [points = figure.points,
                          calibration = calibrations[figure.kernel]](Simulator& simulator) {
      return 1 / mean_seconds(simulator, points, simulator.attention_speed(*calibration));
    };
    table.figures.push_back(
        {figure.name, figure.problem, "iterations/s", figure.iterations_per_second, predict});
  }
}

std::string cluster_of(const PublishedRow& row) {
  const std::string& text = row["hardware"];
  constexpr std::string_view kCluster = "cluster:";
  if (text.starts_with(kCluster)) return text.substr(kCluster.size());
  for (const Hardware& known : kHardware) {
    if (text.find(known.words) != std::string::npos) return std::string(known.cluster);
  }
  RINGSPAN_REQUIRE(false, row.place(), ": no cluster is known for '", text, "'; known are ",
                   name_list(kHardware, &Hardware::words), ", and cluster:NAME or cluster:FILE");
  return "";
}

Point operator_point(const std::string& cluster, std::int64_t gpus) {
  Point point;
  point.transport = "simulated";
  point.cluster = cluster;
  point.kernel = "modelled:fa2";
  point.dtype = "bf16";
  point.ranks = gpus;
  return point;
}

std::vector<Constant> constants_of(const std::string& name) {
  const comm::Cluster cluster = read_cluster(name);
  const comm::NodeFabric& fabric = cluster.fabric;
  const std::string file = concat("cluster ", name);
  const auto constant = [&](std::string what, std::string value) {
    return Constant{std::move(what), std::move(value), Mark::prediction, file};
  };
  constexpr double kGiga = 1e9, kMicro = 1e-6;
  return {
      constant("port of a GPU", fmt::format("{:.4g} GB/s", fabric.gpu_bytes_per_second / kGiga)),
      constant("channels to a peer",
               fmt::format("{} at most, of {:.4g} GB/s", fabric.messages.channels,
                           cluster.channels.bytes_per_second / kGiga)),
      constant("latency of a message",
               fmt::format("{:.4g} us", fabric.messages.latency_seconds / kMicro)),
      constant("kernels while messages move",
               fmt::format("{:.4g} times as slow", fabric.messages.kernel_slowdown)),
      constant("memory", fmt::format("{:.4g} GB/s", cluster.gpu.memory_bytes_per_second / kGiga)),
      constant("launching", fmt::format("{:.4g} us", cluster.issue_seconds / kMicro)),
      {"attention", "published curves of FlashAttention-2", Mark::prediction, "kernel_curves.cpp"},
      {"merging a block", "38 bytes per element, eager", Mark::fit,
       "counted in the authors' code; eager rather than fused was chosen with USP's README in "
       "view"},
  };
}

}  // namespace ringspan::bench
