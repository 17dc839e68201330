// SPDX-License-Identifier: Apache-2.0
// The `ringspan` command. Bad input ends with status 2 and one line on standard error. Where
// several processes run it together, the first speaks for all.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <string>

#include "bench/ask/command_line.hpp"
#include "bench/info.hpp"
#include "bench/processes.hpp"
#include "bench/sweep.hpp"
#include "comm/error.hpp"

namespace {

using ringspan::Error;
using ringspan::ErrorKind;
using namespace ringspan::bench;

int run(const CommandLine& line, const Processes& processes) {
  if (line.command == "sweep") return sweep(sweep_options(line.options), processes);
  if (!processes.first()) return kExitOk;
  if (line.help.empty()) {
    info(line.info);
  } else {
    fmt::print("{}", line.help);
  }
  return kExitOk;
}

/// The first process cannot speak if it is the one that failed.
bool speaks(const Processes& processes, const Error& error) {
  const bool lost = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::peer_failed;
  return processes.first() || (lost && error.where().peer == 0);
}

int run(std::span<const char* const> arguments) {
  const Processes processes;
  try {
    CommandLine line;
    const std::string told =
        processes.told_by_first([&] { return text(line = parse_command_line(arguments)); });
    return run(processes.first() ? line : command_line(told), processes);
  } catch (const Error& error) {
    if (!speaks(processes, error)) return kExitOk;
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
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
