// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/tables/attention_operator.hpp"

#include <fmt/format.h>

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <utility>

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

constexpr int kMessagesPerHop = 2;

/// What anchors must share to be averaged.
struct Kernels {
  std::string problem, cluster, mask, kernel;
  auto operator<=>(const Kernels&) const = default;
};

// Documents of packs, which are points in turn, are as many times as long on several GPUs.
Kernels kernels_of(const OperatorFigure& figure, const std::string& problem) {
  const Point& point = figure.points.front();
  return {problem, point.cluster, figure.points.size() == 1 ? point.mask : "packs", point.kernel};
}

/// Calibrations by what they share. What a problem alone tells apart is called by it.
using Calibrations = std::map<Kernels, std::shared_ptr<Calibration>>;
void name_apart(Calibrations& calibrations) {
  std::map<std::string, int> of_problem;
  for (const auto& [kernels, calibration] : calibrations) ++of_problem[kernels.problem];
  for (const auto& [kernels, calibration] : calibrations) {
    calibration->name = kernels.problem;
    if (of_problem[kernels.problem] == 1) continue;
    calibration->name += concat(", ", kernels.mask, ", ", kernels.kernel, " on ", kernels.cluster);
  }
}

double mean_seconds(Simulator& simulator, const std::vector<Point>& points, double speed) {
  double seconds = 0;
  for (const Point& point : points) seconds += simulator.seconds(point, speed, kMessagesPerHop);
  return seconds / static_cast<double>(points.size());
}

}  // namespace

void add(Table& table, const std::vector<OperatorFigure>& figures) {
  Calibrations calibrations;
  for (const OperatorFigure& figure : figures) {
    if (!figure.anchor) continue;
    std::shared_ptr<Calibration>& calibration = calibrations[kernels_of(figure, figure.problem)];
    if (!calibration) calibration = std::make_shared<Calibration>();
    calibration->anchors.push_back({figure.name, figure.points, 1 / figure.iterations_per_second,
                                    figure.bare, kMessagesPerHop});
  }
  name_apart(calibrations);
  for (const auto& [kernels, calibration] : calibrations) {
    table.calibrations.push_back(*calibration);
  }
  const auto uncalibrated = std::make_shared<Calibration>();
  for (const OperatorFigure& figure : figures) {
    if (figure.anchor) continue;
    const auto own = calibrations.find(
        kernels_of(figure, figure.kernel.empty() ? figure.problem : figure.kernel));
    const auto predict = [points = figure.points,
                          calibration = own != calibrations.end() ? own->second : uncalibrated](
                             Simulator& simulator) {
      return 1 / mean_seconds(simulator, points, simulator.attention_speed(*calibration));
    };
    table.figures.push_back({figure.name, figure.problem, figure.metric,
                             figure.iterations_per_second, predict, figure.mark});
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
  constexpr double kGiga = 1e9, kMicro = 1e-6;
  const comm::Cluster cluster = read_cluster(name);
  const comm::NodeFabric& fabric = cluster.fabric;
  const std::string source = concat("cluster ", name);
  return {
      {concat(name, ", messages"),
       fmt::format(
           "{:.4g} GB/s from a GPU, at most {} channels of {:.4g} GB/s to a peer, {:.4g} us; "
           "kernels meanwhile {:.4g} times as slow",
           fabric.gpu_bytes_per_second / kGiga, fabric.messages.channels,
           cluster.channels.bytes_per_second / kGiga, fabric.messages.latency_seconds / kMicro,
           fabric.messages.kernel_slowdown),
       Mark::prediction, source},
      {concat(name, ", GPU"),
       fmt::format("memory at {:.4g} GB/s, {:.4g} us to launch",
                   cluster.gpu.memory_bytes_per_second / kGiga, cluster.issue_seconds / kMicro),
       Mark::prediction, source},
  };
}

std::vector<Constant> operator_constants(const std::vector<PublishedRow>& rows) {
  std::set<std::string> clusters;
  for (const PublishedRow& row : rows) clusters.insert(cluster_of(row));
  std::vector<Constant> constants;
  for (const std::string& cluster : clusters) {
    for (Constant& constant : constants_of(cluster)) constants.push_back(std::move(constant));
  }
  constants.push_back({"attention",
                       "published curves, of FlashAttention-2 unless the row names another",
                       Mark::prediction, "attention/kernels/kernel_curves.cpp"});
  return constants;
}

}  // namespace ringspan::bench
