// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/seat.hpp"

#include <sched.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <string>

#include "comm/launch.hpp"

namespace ringspan::comm::processes {
namespace {

template <std::size_t kSize>
void copy_text(const std::string& text, std::array<char, kSize>& to) {
  text.copy(to.data(), kSize - 1);
}

bool share_cores(const Seat& a, const Seat& b) {
  if (a.machine != b.machine) return false;
  for (std::size_t i = 0; i < a.cores.size(); ++i)
    if (a.cores[i] & b.cores[i]) return true;
  return false;
}

}  // namespace

Seat own_seat() {
  Seat seat;
  gethostname(seat.host.data(), seat.host.size() - 1);
  std::string boot;  // differs between kernels, not between containers of one
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  copy_text(boot.empty() ? seat.host.data() : boot, seat.machine);
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
    for (std::size_t core = 0; core < 64 * seat.cores.size(); ++core)
      if (CPU_ISSET(core, &cores)) seat.cores[core / 64] |= std::uint64_t{1} << core % 64;
#endif
  return seat;
}

std::vector<Place> places(const std::vector<Seat>& seats, int ranks, int ranks_per_node) {
  if (ranks_per_node > 0) return even_places(ranks, ranks_per_node);
  std::vector<Place> places;
  int nodes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Place place{nodes, 0, 0, 0};
    for (int other = 0; other < rank; ++other) {
      if (seats[other].host != seats[rank].host) continue;
      place.node = places[other].node;
      ++place.local_rank;
    }
    if (place.local_rank == 0) ++nodes;
    place.rail = place.local_rank;
    places.push_back(place);
  }
  return places;
}

bool crowded(const std::vector<Seat>& seats, int process, int ranks) {
  int cores = 0, sharing = 0;
  for (const std::uint64_t bits : seats[process].cores) cores += std::popcount(bits);
  for (int rank = 0; rank < ranks; ++rank) sharing += share_cores(seats[rank], seats[process]);
  return sharing > cores;
}

}  // namespace ringspan::comm::processes
