// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/seat.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <optional>
#include <string>

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

/// The adapter of the `turn`-th rank that has these near: they take turns. None if nobody
/// knows.
std::optional<int> rail(std::uint64_t adapters, int turn) {
  if (adapters == 0) return std::nullopt;
  for (turn %= std::popcount(adapters); turn > 0; --turn) adapters &= adapters - 1;
  return std::countr_zero(adapters);
}

/// A name alone is not enough: machines of one image may all be "localhost".
bool share_host(const Seat& a, const Seat& b) { return a.host == b.host && a.machine == b.machine; }

}  // namespace

Seat own_seat() {
  Seat seat;
  gethostname(seat.host.data(), seat.host.size() - 1);
  std::string boot;  // differs between kernels, not between containers of one
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  copy_text(boot.empty() ? seat.host.data() : boot, seat.machine);
  struct stat status {};
  if (stat("/dev/shm", &status) == 0) seat.shared_memory = status.st_dev;
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
    for (std::size_t core = 0; core < 64 * seat.cores.size(); ++core)
      if (CPU_ISSET(core, &cores)) seat.cores[core / 64] |= std::uint64_t{1} << core % 64;
#endif
  seat.nearby = nearby();
  return seat;
}

std::vector<Place> places(const std::vector<Seat>& seats, const LaunchOptions& options) {
  const int ranks = options.ranks, per_domain = options.ranks_per_numa_domain;
  if (options.ranks_per_node > 0) return even_places(ranks, options.ranks_per_node, per_domain);
  std::vector<Place> places;
  int nodes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Nearby& nearby = seats[rank].nearby;
    Place place{nodes, nearby.numa_domain, 0, 0};
    int before = 0;  // on the same node, and near to the same adapters
    for (int other = 0; other < rank; ++other) {
      if (!share_host(seats[other], seats[rank])) continue;
      place.node = places[other].node;
      ++place.local_rank;
      before += seats[other].nearby.adapters == nearby.adapters;
    }
    if (place.local_rank == 0) ++nodes;
    if (per_domain > 0) place.numa_domain = place.local_rank / per_domain;
    place.rail = rail(nearby.adapters, before).value_or(place.local_rank);
    places.push_back(place);
  }
  return places;
}

int rank_on_host(const std::vector<Seat>& seats, int process) {
  const auto own = seats.begin() + process;
  return static_cast<int>(
      std::count_if(seats.begin(), own, [&](const Seat& seat) { return share_host(seat, *own); }));
}

bool crowded(const std::vector<Seat>& seats, int process, int ranks) {
  int cores = 0, sharing = 0;
  for (const std::uint64_t bits : seats[process].cores) cores += std::popcount(bits);
  for (int rank = 0; rank < ranks; ++rank) sharing += share_cores(seats[rank], seats[process]);
  return sharing > cores;
}

}  // namespace ringspan::comm::processes
