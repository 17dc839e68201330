// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "bench/ask/config_file.hpp"
#include "bench/commit.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr const char* kCommands = "sweep, info";

/// CLI11 would report an unknown command as a stray argument.
void require_command(std::span<const char* const> arguments) {
  const std::string_view first = arguments.size() > 1 ? arguments[1] : "";
  RINGSPAN_REQUIRE(!first.empty(), "no command given; known are ", kCommands,
                   "; try ringspan --help");
  const bool known = first.starts_with("-") || first == "sweep" || first == "info";
  RINGSPAN_REQUIRE(known, "unknown command '", first, "'; known are ", kCommands);
}

/// CLI11's complaint as one line.
std::string complaint(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    text = text.substr(0, text.find(':')) + ": give it once, with one value or a comma list";
  }
  return text;
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

}  // namespace

CommandLine parse_command_line(std::span<const char* const> arguments) {
  require_command(arguments);
  CommandLine line;
  CLI::App app("Sequence-parallel attention, measured.", "ringspan");
  app.require_subcommand(1);
  CLI::App* sweep = app.add_subcommand(
      "sweep",
      "Measures every combination of the axes given and prints, or appends, a row each. "
      "Axes take a comma list or a range as 4Ki:64Ki:x2.");
  OptionTexts texts;
  std::map<std::string, bool> flags;
  for (const OptionEntry& option : sweep_option_entries()) {
    const std::string name(option.name), help(option.help);
    if (option.flag) {
      sweep->add_flag(name, flags[name], help);
    } else {
      sweep->add_option(name, texts[name], help);
    }
  }
  CLI::App* info = app.add_subcommand("info", "Says what this build and this machine can do.");
  info->add_flag("--peak", line.info.peak, "measure the peak of fused multiply-adds");
  info->add_flag("--json", line.info.json, "print JSON");
  app.set_version_flag("--version", std::string("ringspan ") + kCommit);
  sweep->allow_extras();
  info->allow_extras();

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
  require_no_extras(*info, "--peak, --json");
  require_no_extras(*sweep, name_list(sweep_option_entries(), &OptionEntry::name));
  line.command = info->parsed() ? "info" : "sweep";
  for (const OptionEntry& option : sweep_option_entries()) {
    const std::string name(option.name);
    if (option.flag ? flags[name] : sweep->count(name) > 0) line.options[name] = texts[name];
  }
  merge_config(line.options);
  return line;
}

std::string text(const CommandLine& line) {
  using Json = nlohmann::json;
  const Json json = {{"command", line.command},
                     {"options", line.options},
                     {"peak", line.info.peak},
                     {"json", line.info.json},
                     {"help", line.help}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CommandLine command_line(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {json["command"],
          json["options"].get<OptionTexts>(),
          {.peak = json["peak"], .json = json["json"]},
          json["help"]};
}

}  // namespace ringspan::bench
