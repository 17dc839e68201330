// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/held_points.hpp"

#include <map>
#include <set>
#include <string>

namespace ringspan::bench {
namespace {

std::string origin(const Cells& row) {
  return row[column("machine")] + '\n' + row[column("commit")];
}

}  // namespace

HeldPoints held_points(std::span<const Cells> points, std::span<const Cells> rows) {
  std::map<std::string, std::set<std::string>> origins;  // [key of a point]
  for (const Cells& row : rows) origins[key(row)].insert(origin(row));
  HeldPoints held;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto found = origins.find(key(points[i]));
    if (found == origins.end()) {
      held.missing.push_back(i);
    } else if (found->second.count(origin(points[i])) == 0) {
      ++held.elsewhere;
    }
  }
  return held;
}

}  // namespace ringspan::bench
