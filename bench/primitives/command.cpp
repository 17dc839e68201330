// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/command.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu_machine.hpp"
#include "bench/machine.hpp"
#include "bench/primitives/printer.hpp"
#include "bench/rows/costs_file.hpp"
#include "bench/run/known_costs.hpp"
#include "bench/sweep.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "comm/nodes.hpp"

namespace ringspan::bench {
namespace {

/// Those asked for, or all, that a transport has, family by family.
std::vector<std::vector<const Primitive*>> families(const PrimitiveOptions& options,
                                                    const std::string& transport) {
  std::vector<std::vector<const Primitive*>> families;
  for (const Primitive& primitive : primitives()) {
    const auto& asked = options.primitives;
    const bool wanted =
        asked.empty() || std::find(asked.begin(), asked.end(), primitive.name) != asked.end();
    const bool there = primitive.transport.empty() || primitive.transport == transport;
    if (!wanted || !there) continue;
    if (families.empty() || families.back()[0]->family != primitive.family) families.emplace_back();
    families.back().push_back(&primitive);
  }
  return families;
}

/// An automatic all-to-all goes by what messages cost; in one address space it is direct, and a
/// cluster tells it itself.
comm::Communicator knowing_costs(const comm::Communicator& comm, const PrimitiveOptions& options,
                                 const std::string& transport) {
  const auto& asked = options.primitives;
  const bool automatic =
      asked.empty() || std::find(asked.begin(), asked.end(), "all_to_all_automatic") != asked.end();
  if (!automatic || !comm::ranks_are_processes(comm::backend(transport))) return comm;
  const ProbedCosts probed = probe_costs(comm, transport, kProbeSeconds);
  if (comm.rank() == 0) {
    spdlog::info("{}", summary(probed));
    if (!options.costs.empty()) store_costs(options.costs, probed);
  }
  return comm.knowing(probed.costs);
}

/// Where ranks have their buffers.
struct Place {
  std::string name;
  std::int64_t memory_bytes = 0;
  bool of_a_rank = false;  // as a GPU is; otherwise all ranks of the machine share it
};

/// The cluster's GPU, this machine's, or the machine.
Place place_of(const std::string& transport, const PrimitiveOptions& options) {
  if (options.cluster) return {options.cluster->name, options.cluster->gpu.memory_bytes, true};
  const bool on_gpus = comm::backend(transport).world == "gpu";
  if (const auto gpu = on_gpus ? gpu_machine() : std::nullopt)
    return {gpu->name, gpu->memory_bytes, true};
  const Machine machine = this_machine();
  return {machine.name(), machine.memory_bytes};
}

/// One rank of one transport.
class RankPrimitives {
 public:
  RankPrimitives(const comm::Communicator& comm, const PrimitiveOptions& options, Stage stage,
                 const Place& place, Printer& printer)
      : comm_(knowing_costs(comm, options, stage.transport)),
        options_(options),
        stage_(std::move(stage)),
        place_(place),
        printer_(printer) {
    stage_.ranks_per_node = comm::Nodes(comm).largest();
  }

  void time() {
    for (const auto& family : families(options_, stage_.transport)) {
      const std::size_t sizes = family[0]->factor == BusFactor::none ? 1 : options_.bytes.size();
      for (std::size_t i = 0; i < sizes; ++i) time(family, options_.bytes[i]);
      if (comm_.rank() == 0) printer_.end_family();
    }
  }

 private:
  void time(const std::vector<const Primitive*>& family, std::int64_t bytes) {
    const std::string refusal = lack_of_memory(bytes);
    for (const Timed& timed :
         refusal.empty() ? timed_in_turns(family, bytes) : refused(family, bytes, refusal)) {
      if (comm_.rank() == 0) printer_.add({stage_, timed});
    }
  }

  std::vector<Timed> timed_in_turns(const std::vector<const Primitive*>& family,
                                    std::int64_t bytes) {
    comm::Device& device = comm_.device();
    const Setting setting{comm_, bytes, options_.inner_ring, device.allocate(bytes),
                          device.allocate(bytes)};
    return time_in_turns(setting, family, options_.warmup, options_.repeats);
  }

  static std::vector<Timed> refused(const std::vector<const Primitive*>& family, std::int64_t bytes,
                                    const std::string& reason) {
    std::vector<Timed> all;
    for (const Primitive* primitive : family)
      all.push_back({.primitive = primitive, .bytes = bytes, .refusal = reason});
    return all;
  }

  /// The same on all ranks; empty: there is enough.
  std::string lack_of_memory(std::int64_t bytes) {
    constexpr int kBuffers = 10;  // the two that all share, and what the four rings have
    const bool pretended = options_.ranks_per_node > 0;  // all may be on one machine
    const int on_machine = pretended ? stage_.ranks : stage_.ranks_per_node;
    const int ranks = place_.of_a_rank ? 1 : on_machine;
    const std::int64_t memory = comm::all_reduce(comm_, place_.memory_bytes, comm::Reduction::min);
    const double needed = 1.0 * kBuffers * ranks * static_cast<double>(bytes);
    if (needed <= static_cast<double>(memory)) return "";
    return concat(
        bytes, " bytes take up to ", std::ceil(needed / (1 << 30)), " GiB of buffers for ", ranks,
        place_.of_a_rank ? " rank; its GPU has " : " ranks; a machine here has ", memory >> 30);
  }

  comm::Communicator comm_;
  const PrimitiveOptions& options_;
  Stage stage_;
  const Place& place_;
  Printer& printer_;
};

/// All primitives and sizes on the ranks of one transport that live in this process.
void time_here(const std::string& transport, int ranks, const PrimitiveOptions& options,
               Printer& printer) {
  comm::LaunchOptions launch = comm::launch_options_from_environment();
  launch.ranks = ranks;
  launch.hop = options.hop;
  launch.ranks_per_node = options.ranks_per_node;
  if (options.deadline) launch.deadline = *options.deadline;
  const bool lends = options.hop == comm::Hop::reference;
  const Place place = place_of(transport, options);
  if (options.cluster) {
    launch.cluster = std::make_shared<const comm::Cluster>(
        comm::without_empty_nodes(*options.cluster, ranks, options.ranks_per_node));
  }
  const Stage stage{place.name, transport, lends ? "reference" : "copy", ranks};
  comm::launch(transport, launch, [&](const comm::Communicator& comm) {
    RankPrimitives(comm, options, stage, place, printer).time();
  });
}

/// The reason if the transport cannot have so many ranks. Collective; the same on all processes.
std::string time_on(const std::string& transport, int ranks, const PrimitiveOptions& options,
                    Printer& printer, const Processes& processes) {
  try {
    if (comm::ranks_are_processes(comm::backend(transport))) {
      time_here(transport, ranks, options, printer);
      return "";
    }
    processes.in_first_or_throw([&] { time_here(transport, ranks, options, printer); });
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    return error.what();
  }
}

}  // namespace

int time_primitives(const PrimitiveOptions& options, const Processes& processes) {
  Printer printer(options.format);
  std::vector<std::string> refusals;
  processes.told_by_first([&] {
    if (!options.costs.empty()) require_costs_file(options.costs);
    return std::string();
  });
  for (const std::string& transport : options.transports) {
    for (const std::int64_t ranks : options.ranks) {
      const std::string refusal =
          time_on(transport, static_cast<int>(ranks), options, printer, processes);
      if (!refusal.empty()) refusals.push_back(concat(transport, ": ", refusal));
    }
  }
  processes.told_by_first([&] {
    RINGSPAN_REQUIRE(printer.timed(), refusals.empty() ? printer.refusal() : refusals[0]);
    for (const std::string& refusal : refusals) spdlog::warn("left out: {}", refusal);
    return std::string();
  });
  return printer.wrong() ? kExitFailed : kExitOk;
}

}  // namespace ringspan::bench
