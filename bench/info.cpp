// SPDX-License-Identifier: Apache-2.0
#include "bench/info.hpp"

#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attention/kernels.hpp"
#include "attention/kernels/cuda/image.hpp"
#include "attention/schedule.hpp"
#include "attention/token_layout.hpp"
#include "bench/ask/models.hpp"
#include "bench/commit.hpp"
#include "bench/fma_peak.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/machine.hpp"
#include "bench/sweep.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

using Json = nlohmann::ordered_json;

/// The best vector instructions that the kernels find here.
std::string simd_target() {
  const std::int64_t targets = hwy::SupportedTargets();
  return hwy::TargetName(targets & -targets);  // the lowest bit is the best
}

Json machine(bool measure_peak) {
  const Machine machine = this_machine();
  Json json = {{"processor", machine.processor},
               {"cores", machine.cores},
               {"hardware_threads", machine.hardware_threads},
               {"numa_domains", machine.numa_domains},
               {"memory_bytes", machine.memory_bytes}};
  for (const Machine::Cache& cache : machine.caches) {
    json[fmt::format("l{}_bytes", cache.level)] = cache.bytes;
    json[fmt::format("l{}_caches", cache.level)] = cache.count;
  }
  json["vectors"] = simd_target();
  if (measure_peak) json["fma_gflops_per_core"] = fma_peak_gflops(0.5);
  return json;
}

Json environment(const char* name, const char* meaning) {
  const char* value = std::getenv(name);
  return {{"name", name},
          {"summary", value ? fmt::format("{} (now {})", meaning, value) : meaning}};
}

template <typename Table>
Json entries(const Table& table) {
  Json json = Json::array();
  for (const auto& entry : table)
    json.push_back({{"name", entry.name}, {"summary", entry.summary}});
  return json;
}

/// Of each process: its place, as the transports across processes see it.
Json ranks(const Processes& processes) {
  struct Seat {
    std::array<char, 256> host;
    comm::Place place;
  };
  std::vector<Seat> seats;
  processes.together([&](const comm::Communicator& comm) {
    Seat own{{}, comm.place(comm.rank())};
    gethostname(own.host.data(), own.host.size() - 1);
    seats = comm::all_gather_values(comm, own);
  });
  const comm::LaunchOptions options = comm::launch_options_from_environment();
  if (options.ranks_per_node > 0) {
    const std::vector<comm::Place> pretended = comm::even_places(
        static_cast<int>(seats.size()), options.ranks_per_node, options.ranks_per_numa_domain);
    for (std::size_t i = 0; i < seats.size(); ++i) seats[i].place = pretended[i];
  }
  std::map<int, int> ranks_on;  // [node]
  for (const Seat& seat : seats) ++ranks_on[seat.place.node];
  Json json = Json::array();
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    const auto& [host, place] = seats[rank];
    json.push_back(
        {{"name", fmt::format("rank {}", rank)},
         {"summary", fmt::format("host {}, node {}, NUMA domain {}, local rank {} of {}, rail {}",
                                 host.data(), place.node, place.numa_domain, place.local_rank,
                                 ranks_on[place.node], place.rail)}});
  }
  return json;
}

std::string gpus() {
  const std::optional<GpuMachine> gpu = gpu_machine();
  const std::string_view targets = attention::cuda::kernel_targets();
  return fmt::format("{}; {}", gpu ? gpu->name : "not available: " + why_no_gpu(),
                     targets.empty() ? "no kernels, built without a CUDA toolkit"
                                     : fmt::format("kernels for {} and newer", targets));
}

Json described(const InfoOptions& options, const Json& ranks) {
  Json json = {{"commit", kCommit}, {"machine", machine(options.peak)}, {"ranks", ranks}};
  for (const comm::Backend& backend : comm::backends()) {
    const std::string reason = backend.unavailable();
    std::string summary(backend.summary);
    if (!reason.empty()) {
      summary = "not available: " + reason;
    } else if (backend.found) {
      summary += " (" + backend.found() + ")";
    }
    json["transports"].push_back({{"name", backend.name}, {"summary", summary}});
  }
  json["devices"] = {{{"name", "host"}, {"summary", "this process's memory and cores"}},
                     {{"name", "cuda"}, {"summary", gpus()}}};
  json["kernels"] = entries(attention::kernel_families());
  json["schedules"] = entries(attention::schedules());
  json["layouts"] = {{{"name", "contiguous"}, {"summary", "consecutive pieces"}},
                     {{"name", "striped"}, {"summary", "every ranks-th token"}},
                     {{"name", "zigzag"}, {"summary", "one early piece and its mirror image"}}};
  for (const Model& model : models()) {
    json["models"].push_back(
        {{"name", model.name},
         {"summary", fmt::format("{} heads, {} KV heads, head_dim {} ({})", model.heads,
                                 model.kv_heads, model.head_dim, model.source)}});
  }
  json["environment"] = {
      environment("RINGSPAN_RANKS_PER_NODE", "pretend that nodes hold this many ranks"),
      environment("RINGSPAN_RANKS_PER_NUMA_DOMAIN", "pretend that their NUMA domains do"),
      environment("RINGSPAN_TIMEOUT_S", "seconds that an awaited rank may make no progress"),
      environment("RINGSPAN_DEBUG", "comma list of ledger, poison, blocking, reachable, delay"),
      environment("RINGSPAN_FLIGHT_RECORDER", "a folder for the last operations before a failure")};
  return json;
}

/// Text of a number or a string, without the quotes.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print(const Json& json) {
  for (const auto& [section, content] : json.items()) {
    if (content.is_string()) {
      fmt::print("{} {}\n", section, plain(content));
      continue;
    }
    fmt::print("\n{}\n", section);
    for (const auto& [key, value] : content.items()) {
      if (content.is_object()) {
        fmt::print("  {:<24} {}\n", key, plain(value));
      } else {
        fmt::print("  {:<24} {}\n", plain(value["name"]), plain(value["summary"]));
      }
    }
  }
}

}  // namespace

int info(const InfoOptions& options, const Processes& processes) {
  const Json places = ranks(processes);
  if (!processes.first()) return kExitOk;
  const Json json = described(options, places);
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    print(json);
  }
  return kExitOk;
}

}  // namespace ringspan::bench
