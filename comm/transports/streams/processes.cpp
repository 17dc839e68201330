// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/streams/rendezvous.hpp"

namespace ringspan::comm::streams {
namespace {

using processes::Seat;

constexpr double kMeeting = 0.75;  // of the time for which others wait to hear the outcome

void require_one_machine(std::string_view transport, const Machines& machines) {
  if (machines.size() == 1) return;
  throw Error(
      ErrorKind::not_available,
      concat(transport, ": the processes run on ", machines.host(0), " and on ", machines.host(1),
             ", and share no memory; it joins those of one machine, ", "nccl, mpi and ucx any"));
}

std::array<char, 64> new_name() {
  static std::atomic<int> launches{0};
  std::array<char, 64> name{};
  concat("/ringspan-", getpid(), "-", launches++).copy(name.data(), name.size() - 1);
  return name;
}

std::vector<int> ranks_of(const Machines& machines, int machine, int ranks) {
  std::vector<int> members = machines.members(machine);
  members.erase(std::lower_bound(members.begin(), members.end(), ranks), members.end());
  return members;
}

/// Opens what the processes of a machine share, which its first one creates; its name is gone when
/// all have it.
void share(const LaunchOptions& options, const std::vector<Seat>& seats, const Machines& machines,
           Meeting& meeting) {
  const Bootstrap& bootstrap = meeting.bootstrap;
  const int machine = machines.of(bootstrap.rank), first = machines.first(machine);
  const bool creates = bootstrap.rank == first;
  const auto name = processes::all_gather(bootstrap, new_name(), meeting.deadline)[first];
  const std::string hub_name = concat(name.data(), "-hub"),
                    lanes_name = concat(name.data(), "-lanes");
  const auto open = [&] {
    const auto world =
        std::make_shared<World>(World{processes::places(seats, options), false, options.deadline});
    meeting.hub = std::make_shared<SharedHub>(
        std::make_unique<SharedMemory>(hub_name, creates, SharedHub::bytes(bootstrap.size)),
        options, world, processes::crowded(seats, bootstrap.rank, options.ranks), bootstrap.rank,
        machines);
    const std::vector<int> here = ranks_of(machines, machine, options.ranks);
    const std::size_t bytes = Lanes::bytes(options.ranks, static_cast<int>(here.size()));
    meeting.lanes = std::make_shared<Lanes>(
        std::make_unique<SharedMemory>(lanes_name, creates, bytes), options.ranks, here);
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
    for (const bool creating : {true, false})
      processes::all_or_none(bootstrap, meeting.deadline, [&] {
        if (creates == creating) open();
      });
  } catch (const Error&) {
    remove();
    throw;
  }
  remove();
  meeting.hub->watch();
}

/// Lets the machines know of each other.
void connect(const Machines& machines, Meeting& meeting) {
  const Bootstrap& bootstrap = meeting.bootstrap;
  const int machine = machines.of(bootstrap.rank);
  std::optional<Rendezvous> rendezvous;  // of first processes
  processes::all_or_none(bootstrap, meeting.deadline, [&] {
    if (machines.first(machine) == bootstrap.rank) rendezvous.emplace();
  });
  const auto all = processes::all_gather(bootstrap, rendezvous ? rendezvous->contact() : Contact{},
                                         meeting.deadline);
  std::vector<Contact> contacts;
  for (int other = 0; other < machines.size(); ++other)
    contacts.push_back(all[machines.first(other)]);
  processes::all_or_none(bootstrap, meeting.deadline, [&] {
    if (!rendezvous) return;
    auto links = rendezvous->meet(machines, machine, contacts, kMeeting * meeting.deadline);
    meeting.relay =
        std::make_unique<const Relay>(meeting.hub, meeting.lanes, machine, std::move(links));
  });
}

/// Throws not_available, with what this process lacks.
void require_available(std::string_view transport, int process) {
  const std::string reason = backend(transport).unavailable();
  if (!reason.empty())
    throw Error(ErrorKind::not_available,
                concat("transport '", transport, "': process ", process, ": ", reason));
}

void launch_once(std::string_view transport, Reach reach, const LaunchOptions& options,
                 const RankFunction& body, const Prepare& prepare) {
  Meeting meeting{processes::bootstrap_of(transport, options),
                  processes::start_deadline(options),
                  {},
                  {},
                  {},
                  {}};
  const int process = meeting.bootstrap.rank;
  const bool has_rank = process < options.ranks;
  const std::vector<Seat> seats = processes::agree(options, meeting.bootstrap);
  const Machines machines(seats);
  if (reach == Reach::one_machine) require_one_machine(transport, machines);
  share(options, seats, machines, meeting);
  if (machines.size() > 1) connect(machines, meeting);
  processes::all_or_none(meeting.bootstrap, meeting.deadline, [&] {
    require_available(transport, process);
    if (has_rank) meeting.gpu = processes::gpu_of(seats, process);
  });
  const Connect connect = prepare(meeting);
  Watchdog watchdog;  // which frees their memory when all have left
  std::shared_ptr<Engine> engine;
  if (has_rank) engine = run_rank(meeting.hub, process, body, meeting.gpu, connect, watchdog);
  try {
    meeting.hub->leave();
  } catch (const Error& error) {
    if (engine) engine->recorder().dump(options.flight_recorder, error);
    throw;
  }
}

}  // namespace

void launch_processes(std::string_view transport, Reach reach, const LaunchOptions& options,
                      const RankFunction& body, const Prepare& prepare) {
  processes::part_well(options, [&] { launch_once(transport, reach, options, body, prepare); });
}

}  // namespace ringspan::comm::streams
