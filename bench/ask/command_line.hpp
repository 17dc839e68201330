// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/ask/info_options.hpp"
#include "bench/ask/sweep_options.hpp"

namespace ringspan::bench {

/// What was asked for.
struct CommandLine {
  std::string command;  // "sweep" or "info"; empty if help was asked for
  OptionTexts options;  // of sweep; the file of --config already merged in
  InfoOptions info;
  std::string help;
};

/// Throws invalid_argument with one line for anything it does not know.
CommandLine parse_command_line(std::span<const char* const> arguments);

}  // namespace ringspan::bench
