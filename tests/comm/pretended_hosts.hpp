// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "comm/bootstrap.hpp"
#include "comm/error.hpp"
#include "comm/transports/processes/seat.hpp"

namespace ringspan::comm::test {

/// Processes of this machine take each other for those of several, so many per host in turn, that
/// share memory with those of their host alone: where they run is changed on its way to the others.
inline Bootstrap on_hosts(const Bootstrap& bootstrap, const std::vector<int>& per_host) {
  using processes::Seat;
  Bootstrap changed = bootstrap;
  changed.all_gather = [=](const std::byte* mine, std::byte* all, std::size_t bytes,
                           double deadline) {
    bootstrap.all_gather(mine, all, bytes, deadline);
    if (bytes != sizeof(Seat)) return;
    for (int host = 0, process = 0, end = 0; process < bootstrap.size; ++process) {
      if (process == 0) end = per_host[host];
      if (process == end) end += per_host[++host];
      const std::string name = concat("host", host);
      Seat seat;
      std::memcpy(&seat, all + process * bytes, bytes);
      seat.host = {};
      seat.machine = {};
      name.copy(seat.host.data(), seat.host.size() - 1);
      name.copy(seat.machine.data(), seat.machine.size() - 1);
      std::memcpy(all + process * bytes, &seat, bytes);
    }
  };
  return changed;
}

}  // namespace ringspan::comm::test
