// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ringspan::comm {

/// What is near to the cores that the calling thread may run on.
struct Nearby {
  int numa_domain = 0;         // 0 too where they are not of one domain
  std::uint64_t adapters = 0;  // of several network adapters: a bit for each that is near
};

/// As hwloc tells; nothing in builds without it.
Nearby nearby();

}  // namespace ringspan::comm
