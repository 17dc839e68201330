// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/config_file.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

std::string where(const std::string& path, const toml::source_region& source) {
  return concat("--config: ", path, ", line ", source.begin.line, ": ");
}

const OptionEntry& entry(std::string_view key, const std::string& where) {
  for (const OptionEntry& known : sweep_option_entries()) {
    if (known.name.substr(2) == key && key != "config") return known;
  }
  RINGSPAN_REQUIRE(false, where, "unknown option '", key, "'; known are ",
                   name_list(sweep_option_entries(), &OptionEntry::name), " (without the dashes)");
  return sweep_option_entries()[0];
}

/// A scalar as the command line would have it.
std::string scalar(const toml::node& node, const std::string& where) {
  if (const auto* string = node.as_string()) return string->get();
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  RINGSPAN_REQUIRE(false, where, "a value is a string, a number or an array of these");
  return {};
}

std::string list(const toml::node& node, const std::string& where) {
  const toml::array* array = node.as_array();
  if (!array) return scalar(node, where);
  std::string text;
  for (const toml::node& item : *array)
    text += concat(text.empty() ? "" : ",", scalar(item, where));
  return text;
}

}  // namespace

OptionTexts read_config(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be read either
  RINGSPAN_REQUIRE(!std::filesystem::is_directory(path, ignored), "--config: cannot read ", path,
                   ": it is a directory");
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    RINGSPAN_REQUIRE(error.source().begin.line > 0, "--config: cannot read ", path);
    RINGSPAN_REQUIRE(false, where(path, error.source()), error.description());
  }
  OptionTexts texts;
  for (const auto& [key, node] : table) {
    const std::string at = where(path, node.source());
    const OptionEntry& option = entry(key.str(), at);
    if (!option.flag) {
      texts[std::string(option.name)] = list(node, at);
      continue;
    }
    const toml::value<bool>* flag = node.as_boolean();
    RINGSPAN_REQUIRE(flag, at, "'", key.str(), "' is true or false");
    if (flag->get()) texts[std::string(option.name)] = "";
  }
  return texts;
}

}  // namespace ringspan::bench
