// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "comm/bootstrap.hpp"
#include "comm/error.hpp"
#include "comm/transports/processes/seat.hpp"

namespace ringspan::comm::test {

/// Processes of this machine take each other for those of several, [process], that share memory
/// with those of their host alone: where they run is changed on its way to the others.
inline Bootstrap on_hosts_of(const Bootstrap& bootstrap, const std::vector<int>& host_of) {
  using processes::Seat;
  Bootstrap changed = bootstrap;
  changed.all_gather = [=](const std::byte* mine, std::byte* all, std::size_t bytes,
                           double deadline) {
    bootstrap.all_gather(mine, all, bytes, deadline);
    if (bytes != sizeof(Seat)) return;
    for (int process = 0; process < bootstrap.size; ++process) {
      const std::string name = concat("host", host_of[process]);
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

/// So many per host, in turn.
inline Bootstrap on_hosts(const Bootstrap& bootstrap, const std::vector<int>& per_host) {
  std::vector<int> host_of;
  for (int host = 0; host < static_cast<int>(per_host.size()); ++host)
    host_of.insert(host_of.end(), per_host[host], host);
  return on_hosts_of(bootstrap, host_of);
}

}  // namespace ringspan::comm::test
