// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/machines.hpp"

namespace ringspan::comm::streams {

using processes::Seat;

// Containers of one machine may have memory of their own.
Machines::Machines(const std::vector<Seat>& seats) {
  for (int process = 0; process < static_cast<int>(seats.size()); ++process) {
    const Seat& seat = seats[process];
    int machine = 0;
    for (; machine < size(); ++machine) {
      const Seat& other = seats[first(machine)];
      if (other.machine == seat.machine && other.shared_memory == seat.shared_memory) break;
    }
    if (machine == size()) machines_.push_back({seat.host.data(), {}});
    machines_[machine].members.push_back(process);
    machine_of_.push_back(machine);
  }
}

}  // namespace ringspan::comm::streams
