// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "attention/closed_forms.hpp"
#include "comm/all_to_all.hpp"

namespace ringspan::attention {

/// One rank among those that it exchanges messages with.
struct Group {
  std::vector<int> nodes;  // [rank of the group]
  int rank = 0;
  std::optional<comm::MessageCosts> costs = {};

  int size() const { return static_cast<int>(nodes.size()); }
  int next() const { return (rank + 1) % size(); }

  /// To rank `to` of the group. A slice without bytes is no message.
  Traffic message(int to, std::int64_t bytes) const {
    return {bytes, bytes > 0, nodes[to] == nodes[rank] ? 0 : bytes};
  }
};

/// An all-to-all in which `source` has bytes(source, destination) for `destination`.
using PairBytes = std::function<std::int64_t(int source, int destination)>;
Traffic exchange_traffic(const Group& group, comm::AllToAllAlgorithm algorithm,
                         const PairBytes& bytes);

}  // namespace ringspan::attention
