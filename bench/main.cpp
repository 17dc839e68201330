// SPDX-License-Identifier: Apache-2.0
// The `ringspan` command. Bad input ends with status 2 and one line on standard error. Where
// several processes run it together, the first speaks for all.
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "bench/ask/command_line.hpp"
#include "bench/info.hpp"
#include "bench/interrupt.hpp"
#include "bench/memory/command.hpp"
#include "bench/plan/command.hpp"
#include "bench/primitives/command.hpp"
#include "bench/probe.hpp"
#include "bench/processes.hpp"
#include "bench/sweep.hpp"
#include "bench/trace/command.hpp"
#include "bench/train/command.hpp"
#include "bench/validate/command.hpp"
#include "comm/error.hpp"

namespace {

using ringspan::Error;
using ringspan::ErrorKind;
using namespace ringspan::bench;

/// What the first process does alone, for as long as it takes; the exit status, for all.
int alone(const Processes& processes, const std::function<int()>& command) {
  int status = kExitOk;
  processes.in_first_or_throw([&] { status = command(); });
  return status;
}

int run(const CommandLine& line, const Processes& processes) {
  const auto has = [&](std::string_view option) { return line.options.count(option) > 0; };
  if (line.command == "sweep") return sweep(sweep_options(line.options, line.clusters), processes);
  if (line.command == "primitives") {
    return time_primitives(primitive_options(line.options, line.clusters), processes);
  }
  if (line.command == "plan") return plan(plan_options(line.options, line.clusters), processes);
  if (line.command == "trace") return trace(trace_options(line.options, line.clusters), processes);
  if (line.command == "probe") return probe(probe_options(line.options), processes);
  if (line.command == "train") return train(train_options(line.options), processes);
  if (line.command == "memory") {
    return alone(processes, [&] { return count_memory(memory_options(line.options)); });
  }
  if (line.command == "validate") {
    catch_interrupt();
    return alone(processes, [&] { return validate(validate_options(line.options)); });
  }
  if (line.command == "info") {
    return info({.peak = has("--peak"), .json = has("--json")}, processes);
  }
  if (processes.first()) fmt::print("{}", line.help);
  return kExitOk;
}

/// Whoever reads no more has read enough; a full disk is another matter.
bool read_no_more() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/// What was printed has arrived. Rows of a sweep are in its file, too.
void require_printed(const CommandLine& line) {
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const bool elsewhere = line.command == "sweep" && line.options.count("--csv") > 0;
  if (printed || elsewhere || read_no_more()) return;
  throw Error(ErrorKind::system, "standard output: not all of it could be written");
}

/// The first process cannot speak if it is the one that failed.
bool speaks(const Processes& processes, const Error& error) {
  return processes.first() || (lost(error) && error.where().peer == 0);
}

int run(std::span<const char* const> arguments) {
  const Processes processes;
  using ReadsClusters = Command::ReadsClusters;
  const Command commands[] = {
      {"sweep",
       "Measures every combination of the axes given and prints, or appends, a row each. Axes take "
       "a comma list or a range as 4Ki:64Ki:x2.",
       sweep_option_entries(), ReadsClusters::several},
      {"trace", "Writes a timeline of one point for ui.perfetto.dev.", trace_option_entries(),
       ReadsClusters::several},
      {"primitives",
       "Times rings, all-to-alls and collectives over sizes, and checks what they moved.",
       primitive_option_entries(), ReadsClusters::one},
      {"plan",
       "Predicts how a model's training step is best spread over a cluster, without pipelines, "
       "and says why.",
       plan_option_entries(), ReadsClusters::one},
      {"probe", "Measures what messages cost between and inside nodes: latency, bandwidth, copies.",
       probe_option_entries()},
      {"train",
       "Trains a small language model of bytes with a sharded sequence: loss, speed and memory of "
       "each step.",
       train_option_entries()},
      {"validate",
       "Predicts what others have published, in virtual time, and says how far off that is.",
       validate_option_entries()},
      {"memory",
       "Prints published figures of activation memory beside what formulas say, or what these say "
       "of a model.",
       memory_option_entries()},
      {"info", "Says what this build and this machine can do.", kInfoOptions},
  };
  try {
    CommandLine line;
    const std::string told = processes.told_by_first(
        [&] { return text(line = parse_command_line(arguments, commands)); });
    if (!processes.first()) line = command_line(told);
    const int status = run(line, processes);
    if (status == kExitOk) require_printed(line);
    return status;
  } catch (const Error& error) {
    if (!speaks(processes, error)) return kExitOk;
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Who reads no more is no reason to die: rows go to files, too.
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_color_st("ringspan"));
  spdlog::set_pattern("%n: %v");
  try {
    return run({argv, static_cast<std::size_t>(argc)});
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
    return error.kind() == ErrorKind::invalid_argument ? kExitBadInput : kExitFailed;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return kExitFailed;
  }
}
