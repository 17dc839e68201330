// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/launch.hpp"
#include "comm/topology.hpp"

namespace ringspan::comm::processes {

/// Where one process runs, as it tells the others.
struct Seat {
  std::array<char, 256> host = {};    // its name: processes of one name and machine share a node
  std::array<char, 64> machine = {};  // one kernel, which may play several hosts
  std::uint64_t shared_memory = 0;    // which /dev/shm of the machine it sees
  std::array<std::uint64_t, 16> cores = {};  // a bit for each that it may use, of the machine
  Nearby nearby = {};
};

Seat own_seat();

/// Of the first options.ranks processes; what the options say of nodes and domains stands above
/// what the machines do.
std::vector<Place> places(const std::vector<Seat>& seats, const LaunchOptions& options);

/// How many processes of its host come before `process`, whatever nodes the options pretend: which
/// of the host's GPUs is its own, modulo their number.
int rank_on_host(const std::vector<Seat>& seats, int process);

/// More ranks share the cores of `process` than there are cores, so one that spins slows another.
bool crowded(const std::vector<Seat>& seats, int process, int ranks);

}  // namespace ringspan::comm::processes
