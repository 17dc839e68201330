// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/machine.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// The machines that the processes of a command run on, and how many ranks fall to each of them.
class Hosts {
 public:
  /// Collective.
  explicit Hosts(const Processes& processes);

  /// That of this process.
  const Machine& machine() const { return machine_; }
  /// [process]
  const std::vector<int>& nodes() const { return nodes_; }

  /// One machine, and how many ranks it runs.
  struct Share {
    std::int64_t ranks = 0;
    std::int64_t cores = 0, memory_bytes = 0;
  };
  std::vector<Share> shares(std::string_view transport, std::int64_t ranks) const;

  /// Throws invalid_argument if a machine has less than its ranks' share of `bytes`, which are of
  /// all ranks together; `takes` begins the message, as in "ring: buffers take ".
  void require_memory(std::string_view transport, std::int64_t ranks, double bytes,
                      std::string_view takes) const;

 private:
  Machine machine_;
  std::vector<int> nodes_;
  std::vector<Share> all_;  // [node], with every process
};

}  // namespace ringspan::bench
