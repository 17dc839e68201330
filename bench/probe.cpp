// SPDX-License-Identifier: Apache-2.0
#include "bench/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>

#include "bench/ask/cluster_file.hpp"
#include "bench/fma_peak.hpp"
#include "bench/machine.hpp"
#include "bench/probe_gpus.hpp"
#include "bench/rows/costs_file.hpp"
#include "bench/rows/whole_file.hpp"
#include "bench/run/known_costs.hpp"
#include "bench/sweep.hpp"
#include "comm/devices/cuda/api.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

// Where messages of all sizes take equally long, as noise can make it seem, no bandwidth was seen.
void print_link(const char* name, const comm::LinkCosts& link) {
  const std::string bandwidth =
      link.per_byte > 0 ? fmt::format("{:.3f}", 1e-9 / link.per_byte) : "-";
  fmt::print("{:<16} {:>10.2f} {:>16.2f} {:>12}\n", name, link.latency * 1e6,
             link.per_message * 1e6, bandwidth);
}

void print(const ProbedCosts& probed) {
  const auto& [inter, intra, copy, operation, overlap, trials] = probed.costs;
  fmt::print("{:<16} {:>10} {:>16} {:>12}\n", "", "latency us", "per message us", "GB/s a rank");
  if (probed.nodes > 1) print_link("between nodes", inter);
  if (probed.ranks_per_node > 1) print_link("inside a node", intra);
  fmt::print("{:<16} {:>10} {:>16} {:>12.3f}\n", "copy", "", "", 1e-9 / copy);
  if (trials.count > 0)
    fmt::print("\n{:<24} {:>12} {:>16}\n", "all-to-all, B per pair", "direct us",
               "hierarchical us");
  for (const auto& [bytes, direct, hierarchical] : trials.all())
    fmt::print("{:<24} {:>12.1f} {:>16.1f}\n", bytes, direct * 1e6, hierarchical * 1e6);
  fmt::print("{}\n", summary(probed));
}

/// A cluster whose GPUs are these ranks. What was not measured, or is not there, costs nothing.
comm::Cluster cluster_of(const ProbedCosts& probed) {
  const auto& [inter, intra, copy, operation, overlap, trials] = probed.costs;
  const Machine machine = this_machine();
  comm::Cluster cluster;
  cluster.nodes = probed.nodes;
  cluster.gpus_per_node = cluster.fabric.gpus_per_switch = probed.ranks_per_node;
  cluster.gpu.kind = "host";
  cluster.gpu.multiprocessors = 1;
  cluster.gpu.flops_per_second = fma_peak_gflops(0.1) * 1e9;
  cluster.gpu.memory_bytes = machine.memory_bytes / probed.ranks_per_node;
  cluster.gpu.memory_bytes_per_second = 2 / copy;
  cluster.fabric.messages.latency_seconds = intra.latency;
  cluster.fabric.gpu_bytes_per_second = 1 / std::max(intra.per_byte, copy);
  cluster.network.messages.latency_seconds = inter.latency;
  cluster.network.adapters_per_node = probed.ranks_per_node;
  cluster.network.adapter_bytes_per_second = 1 / std::max(inter.per_byte, copy);
  constexpr double kLeast = 1e-9;  // seconds; a host takes some time for everything
  cluster.issue_seconds =
      std::max(probed.nodes > 1 ? inter.per_message : intra.per_message, kLeast);
  return cluster;
}

void require_new(const std::string& file) {
  std::error_code ignored;  // what cannot be looked at cannot be written either
  RINGSPAN_REQUIRE(!std::filesystem::exists(file, ignored), "--cluster: ", file,
                   " exists; give another name");
  require_writable("--cluster", file);
}

void store_cluster(const std::string& file, const comm::Cluster& cluster,
                   const std::string& heading) {
  const std::string text = cluster_text(cluster, heading);
  write_whole("--cluster", file, [&](std::ostream& stream) { stream << text; });
}

std::string heading(const ProbedCosts& probed) {
  return fmt::format(
      "Measured by ringspan probe: {}\nBandwidths are those of one rank while all send. "
      "gpu.kind is what the speed of modelled\nattention is known by.",
      summary(probed));
}

/// On the ranks of this process; the figures if the first rank is one of them.
ProbedCosts probe_here(const ProbeOptions& options) {
  const comm::Backend& backend = comm::backend(options.transport);
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  const int all = backend.process ? backend.process(launch.deadline).size : 2;
  launch.ranks = options.ranks > 0 ? options.ranks : all;
  if (options.ranks_per_node > 0) launch.ranks_per_node = options.ranks_per_node;
  ProbedCosts probed;
  comm::launch(options.transport, launch, [&](const comm::Communicator& world) {
    ProbedCosts costs = probe_costs(world, options.transport, options.seconds);
    if (world.rank() == 0) probed = std::move(costs);
  });
  return probed;
}

std::string heading(const ProbeOptions& options, const GpuFigures& figures) {
  return fmt::format(
      "Measured by ringspan probe on {} ranks over {}: {}.\n"
      "Speeds of kernels, and the network, are those of the described cluster of such GPUs.",
      figures.ranks, options.transport, figures.gpu);
}

/// Of GPUs bandwidths count and not what the host does between messages.
int probe_of_gpus(const ProbeOptions& options, const Processes& processes) {
  RINGSPAN_REQUIRE(options.json.empty(),
                   "--json: has costs of messages that the host moves; of GPUs ", "take --cluster");
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  const comm::Backend& backend = comm::backend(options.transport);
  const int all = backend.process ? backend.process(launch.deadline).size : 1;
  const int here = std::min(2, comm::cuda::device_count(*comm::cuda::load_cuda()));
  launch.ranks = options.ranks > 0 ? options.ranks : all > 1 ? all : std::max(here, 1);
  GpuFigures figures;
  comm::launch(options.transport, launch, [&](const comm::Communicator& world) {
    const GpuFigures measured = probe_gpus(world);
    if (world.rank() == 0) figures = measured;
  });
  processes.told_by_first([&] {
    if (!options.cluster.empty())  // leaves no file for GPUs of which it cannot be told
      store_cluster(options.cluster, cluster_of(figures, options.transport),
                    heading(options, figures));
    print(figures);
    return std::string();
  });
  return kExitOk;
}

}  // namespace

int probe(const ProbeOptions& options, const Processes& processes) {
  processes.told_by_first([&] {
    if (!options.json.empty()) require_costs_file(options.json);
    if (!options.cluster.empty()) require_new(options.cluster);
    return std::string();
  });
  if (comm::backend(options.transport).world == "gpu") return probe_of_gpus(options, processes);
  ProbedCosts probed;
  if (comm::ranks_are_processes(comm::backend(options.transport))) {
    probed = probe_here(options);
  } else {
    processes.in_first_or_throw([&] { probed = probe_here(options); });
  }
  processes.told_by_first([&] {
    print(probed);
    if (!options.json.empty()) store_costs(options.json, probed);
    if (!options.cluster.empty())
      store_cluster(options.cluster, cluster_of(probed), heading(probed));
    return std::string();
  });
  return kExitOk;
}

}  // namespace ringspan::bench
