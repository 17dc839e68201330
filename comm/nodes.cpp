// SPDX-License-Identifier: Apache-2.0
#include "comm/nodes.hpp"

#include <algorithm>
#include <iterator>

namespace ringspan::comm {
namespace {

std::vector<int> node_names(const Communicator& comm) {
  std::vector<int> names;
  for (int rank = 0; rank < comm.size(); ++rank) names.push_back(comm.place(rank).node);
  return names;
}

}  // namespace

Nodes::Nodes(const Communicator& comm) : Nodes(node_names(comm)) {}

Nodes::Nodes(std::span<const int> names) : where_(names.size()) {
  std::vector<int> known;
  for (int rank = 0; rank < std::ssize(names); ++rank) {
    const auto found = std::find(known.begin(), known.end(), names[rank]);
    const int node = static_cast<int>(found - known.begin());
    if (found == known.end()) {
      known.push_back(names[rank]);
      ranks_.emplace_back();
    }
    where_[rank] = {node, static_cast<int>(ranks_[node].size())};
    ranks_[node].push_back(rank);
  }
}

int Nodes::largest() const {
  std::size_t most = 0;
  for (const std::vector<int>& ranks : ranks_) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

std::vector<int> Nodes::sources(int receiver, int node) const {
  std::vector<int> sources;
  for (const int source : ranks_[node]) {
    if (counterpart(source, where_[receiver].node) == receiver) sources.push_back(source);
  }
  return sources;
}

}  // namespace ringspan::comm
