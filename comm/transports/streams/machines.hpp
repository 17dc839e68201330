// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/transports/processes/seat.hpp"

namespace ringspan::comm::streams {

/// The processes of a launch by what they share: those of one machine, the same memory. Its first
/// process, the lowest, does for the machine what one of them must do.
class Machines {
 public:
  /// In the order of their first processes.
  explicit Machines(const std::vector<processes::Seat>& seats);

  int size() const { return static_cast<int>(machines_.size()); }
  int processes() const { return static_cast<int>(machine_of_.size()); }
  int of(int process) const { return machine_of_[process]; }
  const std::vector<int>& members(int machine) const { return machines_[machine].members; }
  int first(int machine) const { return members(machine).front(); }
  /// The name of the host, or of one of its containers.
  const std::string& host(int machine) const { return machines_[machine].host; }

 private:
  struct Machine {
    std::string host;
    std::vector<int> members;
  };

  std::vector<Machine> machines_;
  std::vector<int> machine_of_;  // [process]
};

}  // namespace ringspan::comm::streams
