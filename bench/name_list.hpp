// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ringspan::bench {

/// The names of a table's entries, for messages: "ring, striped, zigzag".
template <typename Table>
std::string name_list(const Table& table) {
  std::string names;
  for (const auto& entry : table) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace ringspan::bench
