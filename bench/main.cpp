// SPDX-License-Identifier: Apache-2.0
// The `ringspan` command. Bad input ends with status 2 and one line on standard error.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <string>

#include "bench/ask/command_line.hpp"
#include "bench/info.hpp"
#include "bench/sweep.hpp"
#include "comm/error.hpp"

namespace {

using ringspan::bench::CommandLine;

int run(const CommandLine& line) {
  if (!line.help.empty()) {
    fmt::print("{}", line.help);
    return ringspan::bench::kExitOk;
  }
  if (line.command == "info") {
    ringspan::bench::info(line.info);
    return ringspan::bench::kExitOk;
  }
  return ringspan::bench::sweep(ringspan::bench::sweep_options(line.options));
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("ringspan"));
  spdlog::set_pattern("%n: %v");
  try {
    return run(ringspan::bench::parse_command_line({argv, static_cast<std::size_t>(argc)}));
  } catch (const ringspan::Error& error) {
    spdlog::error("{}", error.what());
    return error.kind() == ringspan::ErrorKind::invalid_argument ? ringspan::bench::kExitBadInput
                                                                 : ringspan::bench::kExitFailed;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return ringspan::bench::kExitFailed;
  }
}
