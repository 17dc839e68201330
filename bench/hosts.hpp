// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bench/ask/point.hpp"
#include "bench/machine.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// The machines that the processes of a sweep run on, and what of a point falls to each of them.
class Hosts {
 public:
  /// Collective.
  explicit Hosts(const Processes& processes);

  /// That of this process.
  const Machine& machine() const { return machine_; }
  /// [process]
  const std::vector<int>& nodes() const { return nodes_; }

  /// One machine, and how many ranks of a point it runs.
  struct Share {
    std::int64_t ranks = 0;
    std::int64_t cores = 0, memory_bytes = 0;
  };
  std::vector<Share> shares(const Point& point) const;

 private:
  Machine machine_;
  std::vector<int> nodes_;
  std::vector<Share> all_;  // [node], with every process
};

}  // namespace ringspan::bench
