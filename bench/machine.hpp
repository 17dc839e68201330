// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringspan::bench {

/// Processors and memory, as hwloc sees them.
struct Machine {
  struct Cache {
    int level = 0;
    int count = 0;
    std::int64_t bytes = 0;  // of one
  };

  std::string processor;  // "Intel Xeon Gold 6330"
  int cores = 0, hardware_threads = 0, numa_domains = 0;
  std::int64_t memory_bytes = 0;
  std::vector<Cache> caches = {};  // of data, from small to large

  /// Short, for the CSV: "Intel Xeon Gold 6330 (28 cores)".
  std::string name() const;
};

/// Of the cores: those that this process is bound to (taskset and the like), or all.
enum class Cores { bound, all };

Machine this_machine(Cores cores = Cores::bound);

}  // namespace ringspan::bench
