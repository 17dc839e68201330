// SPDX-License-Identifier: Apache-2.0
#include "bench/hosts.hpp"

#include <algorithm>

#include "comm/collectives.hpp"

namespace ringspan::bench {
namespace {

struct Described {
  int node = 0, cores = 0;
  std::int64_t memory_bytes = 0;
};

}  // namespace

// A launcher binds each process to its own few of the cores that they have together.
Hosts::Hosts(const Processes& processes)
    : machine_(this_machine(processes.size() > 1 ? Cores::all : Cores::bound)) {
  processes.together([this](const comm::Communicator& comm) {
    const Described own{comm.place(comm.rank()).node, machine_.cores, machine_.memory_bytes};
    for (const Described& process : comm::all_gather_values(comm, own)) {
      const auto node = static_cast<std::size_t>(process.node);
      nodes_.push_back(process.node);
      all_.resize(std::max(all_.size(), node + 1));
      all_[node] = {all_[node].ranks + 1, process.cores, process.memory_bytes};
    }
  });
}

std::vector<Hosts::Share> Hosts::shares(const Point& point) const {
  if (!comm::ranks_are_processes(comm::backend(point.transport))) {
    return {{point.ranks, machine_.cores, machine_.memory_bytes}};
  }
  std::vector<Share> shares = all_;
  for (Share& share : shares) share.ranks = 0;
  const std::size_t ranks = std::min(nodes_.size(), static_cast<std::size_t>(point.ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank) ++shares[nodes_[rank]].ranks;
  std::erase_if(shares, [](const Share& share) { return share.ranks == 0; });
  return shares;
}

}  // namespace ringspan::bench
