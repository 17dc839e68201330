// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ringspan::bench {

/// In quotes if the text needs them.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// At least one field, as a line.
template <typename Fields>
std::string csv_line(const Fields& fields) {
  std::string line;
  for (const auto& field : fields) line += csv_field(field) + ',';
  line.back() = '\n';
  return line;
}

}  // namespace ringspan::bench
