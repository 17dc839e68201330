// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/ask/cluster_file.hpp"
#include "bench/ask/option.hpp"

namespace ringspan::bench {

/// One of the things that `ringspan` does.
struct Command {
  std::string_view name, help;
  std::span<const OptionEntry> options;
  /// How many clusters --cluster names that are read before the command begins.
  enum class ReadsClusters { none, one, several } reads_clusters = ReadsClusters::none;
};

/// What was asked for.
struct CommandLine {
  std::string command;  // empty if help was asked for
  OptionTexts options;  // the file of --config already merged in
  Clusters clusters;    // that --cluster names
  std::string help;
};

/// Throws invalid_argument with one line for anything it does not know.
CommandLine parse_command_line(std::span<const char* const> arguments,
                               std::span<const Command> commands);

/// The same as text, for other processes, which may not see the files of --config and --cluster; of
/// a file name that is no UTF-8 only the first process needs every byte.
std::string text(const CommandLine& line);
CommandLine command_line(const std::string& text);

}  // namespace ringspan::bench
