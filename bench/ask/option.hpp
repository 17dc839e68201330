// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ringspan::bench {

/// An option, as the command line and configuration files know it.
struct OptionEntry {
  std::string_view name;  // "--seq"
  std::string_view help;
  bool flag = false;
  std::string_view letter = {};  // "-o", short for the name, if there is one
};

/// Options that were given, by name, as they were written; flags have an empty text.
using OptionTexts = std::map<std::string, std::string, std::less<>>;

}  // namespace ringspan::bench
