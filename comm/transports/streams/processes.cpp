// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/processes.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "comm/transports/processes/agreement.hpp"

namespace ringspan::comm::streams {
namespace {

using processes::Seat;

void require_one_machine(std::string_view transport, const std::vector<Seat>& seats) {
  for (const Seat& seat : seats)
    if (seat.machine != seats[0].machine)
      throw Error(ErrorKind::not_available,
                  concat(transport, ": the processes run on ", seats[0].host.data(), " and on ",
                         seat.host.data(), "; it joins those of one machine, mpi and ucx any"));
}

std::array<char, 64> new_name() {
  static std::atomic<int> launches{0};
  std::array<char, 64> name{};
  concat("/ringspan-", getpid(), "-", launches++).copy(name.data(), name.size() - 1);
  return name;
}

/// Opens what the processes share, which one of them creates; its name is gone when all have it.
void share(const LaunchOptions& options, const std::vector<Seat>& seats, Meeting& meeting) {
  const Bootstrap& bootstrap = meeting.bootstrap;
  const bool creates = bootstrap.rank == 0;
  const auto name = processes::all_gather(bootstrap, new_name(), meeting.deadline).front();
  const std::string hub_name = concat(name.data(), "-hub"),
                    lanes_name = concat(name.data(), "-lanes");
  const auto open = [&] {
    const auto world =
        std::make_shared<World>(World{processes::places(seats, options), false, options.deadline});
    meeting.hub = std::make_shared<SharedHub>(
        std::make_unique<SharedMemory>(hub_name, creates, SharedHub::bytes(bootstrap.size)),
        options, world, processes::crowded(seats, bootstrap.rank, options.ranks), bootstrap.rank,
        bootstrap.size);
    meeting.lanes = std::make_shared<Lanes>(
        std::make_unique<SharedMemory>(lanes_name, creates, Lanes::bytes(options.ranks)),
        options.ranks);
    if (creates) meeting.hub->start();
    if (creates) meeting.lanes->start();
    meeting.hub->enter();
  };
  const auto remove = [&] {
    if (!creates) return;
    SharedMemory::remove(hub_name);
    SharedMemory::remove(lanes_name);
  };
  try {
    for (const bool first : {true, false})
      processes::all_or_none(bootstrap, meeting.deadline, [&] {
        if (creates == first) open();
      });
  } catch (const Error&) {
    remove();
    throw;
  }
  remove();
  meeting.hub->watch();
}

/// Throws not_available, with what this process lacks.
void require_available(std::string_view transport, int process) {
  const std::string reason = backend(transport).unavailable();
  if (!reason.empty())
    throw Error(ErrorKind::not_available,
                concat("transport '", transport, "': process ", process, ": ", reason));
}

}  // namespace

void launch_processes(std::string_view transport, const LaunchOptions& options,
                      const RankFunction& body, const Prepare& prepare) {
  Meeting meeting{
      processes::bootstrap_of(transport, options), processes::start_deadline(options), {}, {}, {}};
  const int process = meeting.bootstrap.rank;
  const bool has_rank = process < options.ranks;
  const std::vector<Seat> seats = processes::agree(options, meeting.bootstrap);
  require_one_machine(transport, seats);
  share(options, seats, meeting);
  processes::all_or_none(meeting.bootstrap, meeting.deadline, [&] {
    require_available(transport, process);
    if (has_rank) meeting.gpu = processes::gpu_of(seats, process);
  });
  const Connect connect = prepare(meeting);
  Watchdog watchdog;  // which frees their memory when all have left
  if (has_rank) run_rank(meeting.hub, process, body, meeting.gpu, connect, watchdog);
  meeting.hub->leave();
  processes::end_well(options);
}

}  // namespace ringspan::comm::streams
