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

/// The same as text, for other processes, which may not see the file of --config; of a file name
/// that is no UTF-8 only the first process needs every byte.
std::string text(const CommandLine& line);
CommandLine command_line(const std::string& text);

}  // namespace ringspan::bench
