// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// The ranks of a group by node. Nodes are numbered in the order in which the group comes to them.
class Nodes {
 public:
  /// [rank]: a name of its node.
  explicit Nodes(std::span<const int> names);
  explicit Nodes(const Communicator& comm);

  int count() const { return static_cast<int>(ranks_.size()); }
  int largest() const;  // ranks of the largest node
  int node(int rank) const { return where_[rank].node; }
  int index(int rank) const { return where_[rank].index; }  // within its node
  const std::vector<int>& ranks(int node) const { return ranks_[node]; }

  /// The rank of `node` that receives for all of it what `source` sends there: the one of equal
  /// index, on a smaller node the index wrapped around. On its own node a rank receives for itself.
  int counterpart(int source, int node) const {
    return ranks_[node][where_[source].index % ranks_[node].size()];
  }

  /// The ranks of `node` that `receiver` receives for.
  std::vector<int> sources(int receiver, int node) const;

 private:
  struct Where {
    int node, index;
  };
  std::vector<std::vector<int>> ranks_;  // [node][index], in the order of the group
  std::vector<Where> where_;             // [rank]
};

}  // namespace ringspan::comm
