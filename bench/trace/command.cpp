// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <string>

#include "bench/commit.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/hosts.hpp"
#include "bench/rows/csv_columns.hpp"
#include "bench/rows/whole_file.hpp"
#include "bench/run/measure.hpp"
#include "bench/run/require_memory.hpp"
#include "bench/sweep.hpp"
#include "bench/trace/chrome_trace.hpp"
#include "bench/trace/record.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

/// What a row of this point would say of it, where that says anything.
std::map<std::string, std::string> about(const Point& point, const Machine& machine) {
  const auto gpu = point.device == "cuda" ? gpu_machine() : std::nullopt;
  const Cells row = cells(
      {machine_name(point, gpu, machine), kCommit, std::string(point.world()), point, 1, {}, ""});
  std::map<std::string, std::string> about;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i].empty()) about.emplace(kColumns[i], row[i]);
  }
  about.erase("repeats");
  return about;
}

Timeline recorded(const TraceOptions& options, const Point& point) {
  if (!point.simulated()) return record(point, options.measure);
  return record_simulated(point, options.measure, options.axes.clusters.at(point.cluster));
}

void write(const std::string& output, const Timeline& timeline, const Point& point,
           const Machine& machine) {
  write_whole("--output", output, [&](std::ostream& stream) {
    write_chrome_trace(stream, timeline, about(point, machine));
  });
  spdlog::info("{}: {} of {} ranks, {:.4g} ms, world '{}'; open it in ui.perfetto.dev", output,
               point.schedule, point.ranks, timeline.seconds * 1e3,
               comm::backend(point.transport).world);
}

}  // namespace

int trace(const TraceOptions& options, const Processes& processes) {
  const Hosts hosts(processes);
  const Point point = points(options.axes, hosts.nodes()).front();
  if (!point.simulated()) require_device(point);
  const bool told = comm::backend(point.transport).world == "gpu";
  RINGSPAN_REQUIRE(point.device != "cuda" || told, "--transport: a timeline of '", point.transport,
                   "' on GPUs would show when the host sees messages; trace nccl or cuda_ipc");
  processes.told_by_first([&] {  // of machines of unequal memory, too
    if (!point.simulated())
      require_memory(point, hosts, point.device == "cuda" ? gpu_machine() : std::nullopt);
    require_writable("--output", options.output);
    return std::string();
  });
  Timeline timeline;
  if (comm::ranks_are_processes(comm::backend(point.transport))) {
    timeline = recorded(options, point);
  } else {
    processes.in_first_or_throw([&] { timeline = recorded(options, point); });
  }
  processes.told_by_first([&] {
    write(options.output, timeline, point, hosts.machine());
    return std::string();
  });
  return kExitOk;
}

}  // namespace ringspan::bench
