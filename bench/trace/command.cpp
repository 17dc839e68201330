// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "bench/commit.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/hosts.hpp"
#include "bench/rows/csv_columns.hpp"
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

/// Where the trace grows until it is whole and takes the place of `file`, so that a full disk
/// leaves an earlier one as it was. A pipe, a device or a link, such as /dev/stdout, is written to
/// directly.
std::string growing(const std::string& file) {
  const auto type = std::filesystem::symlink_status(file).type();
  const bool direct = std::filesystem::exists(file) && type != std::filesystem::file_type::regular;
  return direct ? file : file + ".tmp";
}

void require_writable(const std::string& file) {
  const bool there = std::filesystem::exists(file);
  RINGSPAN_REQUIRE(std::ofstream(file, std::ios::app), "--output: cannot write ", file, ": ",
                   std::generic_category().message(errno));
  if (!there) std::filesystem::remove(file);  // it may come to nothing
}

void write(const std::string& output, const Timeline& timeline, const Point& point,
           const Machine& machine) {
  const std::string file = growing(output);
  std::ofstream stream(file);
  write_chrome_trace(stream, timeline, about(point, machine));
  stream.close();
  std::error_code error;
  if (stream && file != output) std::filesystem::rename(file, output, error);
  if (!stream || error) {
    if (file != output) std::filesystem::remove(file, error);
    throw Error(ErrorKind::system, concat("--output: cannot write ", output));
  }
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
    require_writable(options.output);
    require_writable(growing(options.output));
    return std::string();
  });
  Timeline timeline;
  std::exception_ptr failure;
  if (comm::ranks_are_processes(comm::backend(point.transport))) {
    timeline = recorded(options, point);
  } else {
    processes.in_first([&] {
      try {
        timeline = recorded(options, point);
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  processes.told_by_first([&] {
    if (failure) std::rethrow_exception(failure);
    write(options.output, timeline, point, hosts.machine());
    return std::string();
  });
  return kExitOk;
}

}  // namespace ringspan::bench
