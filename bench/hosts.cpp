// SPDX-License-Identifier: Apache-2.0
#include "bench/hosts.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"
#include "comm/error.hpp"

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

std::vector<Hosts::Share> Hosts::shares(std::string_view transport, std::int64_t ranks) const {
  if (!comm::ranks_are_processes(comm::backend(transport))) {
    return {{ranks, machine_.cores, machine_.memory_bytes}};
  }
  std::vector<Share> shares = all_;
  for (Share& share : shares) share.ranks = 0;
  const std::int64_t placed = std::min(std::ssize(nodes_), ranks);
  for (std::int64_t rank = 0; rank < placed; ++rank) ++shares[nodes_[rank]].ranks;
  std::erase_if(shares, [](const Share& share) { return share.ranks == 0; });
  return shares;
}

void Hosts::require_memory(std::string_view transport, std::int64_t ranks, double bytes,
                           std::string_view takes) const {
  for (const Share& host : shares(transport, ranks)) {
    const double share = bytes * static_cast<double>(host.ranks) / static_cast<double>(ranks);
    RINGSPAN_REQUIRE(share <= static_cast<double>(host.memory_bytes), takes,
                     std::ceil(share / (1 << 30)), " GiB on ", host.ranks,
                     host.ranks == 1 ? " rank" : " ranks", "; the machine has ",
                     host.memory_bytes >> 30);
  }
}

}  // namespace ringspan::bench
