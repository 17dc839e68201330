// SPDX-License-Identifier: Apache-2.0
#include "bench/info.hpp"

#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <string>

#include "attention/kernels.hpp"
#include "attention/schedule.hpp"
#include "attention/token_layout.hpp"
#include "bench/commit.hpp"
#include "bench/fma_peak.hpp"
#include "bench/machine.hpp"
#include "bench/models.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

std::string size(std::int64_t bytes) {
  const double kib = static_cast<double>(bytes) / 1024;
  if (kib < 1024) return fmt::format("{:.0f} KiB", kib);
  if (kib < 1024 * 1024) return fmt::format("{:.3g} MiB", kib / 1024);
  return fmt::format("{:.3g} GiB", kib / 1024 / 1024);
}

/// The best vector instructions that the kernels find here.
std::string simd_target() {
  const std::int64_t targets = hwy::SupportedTargets();
  return hwy::TargetName(targets & -targets);  // the lowest bit is the best
}

void print_machine(bool measure_peak) {
  const Machine machine = this_machine();
  fmt::print("machine\n  {}\n  {} cores, {} hardware threads, {} NUMA domains, {} of memory\n",
             machine.processor, machine.cores, machine.hardware_threads, machine.numa_domains,
             size(machine.memory_bytes));
  for (const Machine::Cache& cache : machine.caches) {
    fmt::print("  L{} {} x {}\n", cache.level, cache.count, size(cache.bytes));
  }
  fmt::print("  vectors {}\n", simd_target());
  if (measure_peak) {
    fmt::print("  fp32 fused multiply-adds of one core: {:.1f} GFLOP/s\n", fma_peak_gflops(0.5));
  }
}

template <typename Table>
void print_table(const char* title, const Table& table) {
  fmt::print("\n{}\n", title);
  for (const auto& entry : table) fmt::print("  {:<14} {}\n", entry.name, entry.summary);
}

void print_transports() {
  fmt::print("\ntransports\n");
  for (const comm::Backend& backend : comm::backends()) {
    const std::string reason = backend.unavailable();
    fmt::print("  {:<14} {}{}\n", backend.name, backend.summary,
               reason.empty() ? "" : "; not available: " + reason);
  }
  fmt::print("\ndevices\n  {:<14} {}\n", "host", "this process's memory and cores");
}

void print_models() {
  fmt::print("\nmodels\n");
  for (const Model& model : models()) {
    fmt::print("  {:<14} {} heads, {} KV heads, head_dim {}: {}\n", model.name, model.heads,
               model.kv_heads, model.head_dim, model.source);
  }
}

void print_environment() {
  constexpr const char* kVariables[][2] = {
      {"RINGSPAN_RANKS_PER_NODE", "pretend that nodes hold this many ranks"},
      {"RINGSPAN_TIMEOUT_S", "seconds that an awaited rank may make no progress"},
      {"RINGSPAN_DEBUG", "comma list of ledger, poison, delay"}};
  fmt::print("\nenvironment\n");
  for (const auto& [name, meaning] : kVariables) {
    const char* value = std::getenv(name);
    fmt::print("  {:<24} {}{}\n", name, meaning, value ? std::string(" = ") + value : "");
  }
}

}  // namespace

void info(bool measure_peak) {
  fmt::print("ringspan {}\n\n", kCommit);
  print_machine(measure_peak);
  print_transports();
  print_table("kernels", attention::kernel_families());
  print_table("schedules", attention::schedules());
  fmt::print("\nlayouts\n  contiguous, striped, zigzag\n");
  print_models();
  print_environment();
}

}  // namespace ringspan::bench
