// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <vector>

#include "bench/ask/axes.hpp"
#include "bench/ask/config_file.hpp"
#include "bench/commit.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// CLI11 would report an unknown command as a stray argument.
void require_command(std::span<const char* const> arguments, std::span<const Command> commands) {
  const std::string_view first = arguments.size() > 1 ? arguments[1] : "";
  const std::string known = name_list(commands, &Command::name);
  RINGSPAN_REQUIRE(!first.empty(), "no command given; known are ", known, "; try ringspan --help");
  RINGSPAN_REQUIRE(first.starts_with("-") ||
                       std::any_of(commands.begin(), commands.end(),
                                   [&](const Command& command) { return command.name == first; }),
                   "unknown command '", first, "'; known are ", known);
}

/// CLI11's complaint as one line.
std::string complaint(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (!dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return text;
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return "--" + text.substr(0, text.find(' ')) + ": takes no value";
  return text.substr(0, colon) + ": give it once, with one value or a comma list";
}

/// CLI11 would name what it does not know in the wrong order and nothing that it knows.
void require_no_extras(const CLI::App& command, const std::string& known) {
  const std::vector<std::string> extras = command.remaining();
  RINGSPAN_REQUIRE(extras.empty(), command.get_name(), ": unknown option '", extras[0],
                   "'; known are ", known);
}

/// What was given on the command line stands before what the file says.
void merge_config(OptionTexts& options) {
  const auto config = options.find("--config");
  if (config == options.end()) return;
  OptionTexts file = read_config(config->second);
  options.merge(file);
}

Clusters read_clusters(const OptionTexts& options, Command::ReadsClusters how_many) {
  Clusters clusters;
  const auto given = options.find("--cluster");
  if (given == options.end() || how_many == Command::ReadsClusters::none) return clusters;
  const bool list = how_many == Command::ReadsClusters::several;
  for (const std::string& name :
       list ? items("--cluster", given->second) : std::vector{given->second}) {
    clusters.emplace(name, read_cluster(name));
  }
  return clusters;
}

}  // namespace

CommandLine parse_command_line(std::span<const char* const> arguments,
                               std::span<const Command> commands) {
  require_command(arguments, commands);
  CommandLine line;
  CLI::App app("Sequence-parallel attention, measured.", "ringspan");
  app.require_subcommand(1);
  app.set_version_flag("--version", concat("ringspan ", kVersion, ", commit ", kCommit));
  OptionTexts texts;
  for (const Command& command : commands) {
    CLI::App* parser = app.add_subcommand(std::string(command.name), std::string(command.help));
    parser->allow_extras();
    for (const OptionEntry& option : command.options) {
      const std::string name(option.name), help(option.help);
      if (option.flag) {
        parser->add_flag(name, help)->disable_flag_override();  // or --check=false would set it
      } else {
        parser->add_option(option.letter.empty() ? name : concat(option.letter, ",", name),
                           texts[name], help);
      }
    }
  }

  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::CallForHelp&) {
    line.help = app.help("", CLI::AppFormatMode::Normal);
    return line;
  } catch (const CLI::CallForVersion& version) {
    line.help = version.what() + std::string("\n");
    return line;
  } catch (const CLI::ParseError& error) {
    RINGSPAN_REQUIRE(false, complaint(error));
  }
  for (const Command& command : commands) {
    const CLI::App& parser = *app.get_subcommand(std::string(command.name));
    if (!parser.parsed()) continue;
    require_no_extras(parser, name_list(command.options, &OptionEntry::name));
    line.command = command.name;
    for (const OptionEntry& option : command.options) {
      const std::string name(option.name);
      if (parser.count(name) > 0) line.options[name] = option.flag ? "" : texts[name];
    }
    merge_config(line.options);
    line.clusters = read_clusters(line.options, command.reads_clusters);
  }
  return line;
}

std::string text(const CommandLine& line) {
  using Json = nlohmann::json;
  Json json = {{"command", line.command}, {"options", line.options}, {"help", line.help}};
  for (const auto& [given, cluster] : line.clusters) {
    json["clusters"].push_back(std::tuple(given, cluster.name, cluster_text(cluster, "")));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CommandLine command_line(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  CommandLine line{json["command"], json["options"].get<OptionTexts>(), {}, json["help"]};
  if (!json.contains("clusters")) return line;
  for (const auto& [given, name, toml] :
       json["clusters"].get<std::vector<std::tuple<std::string, std::string, std::string>>>()) {
    line.clusters.emplace(given, parse_cluster(toml, name));
  }
  return line;
}

}  // namespace ringspan::bench
