// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/cuda_ipc/processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transports/cuda_ipc/connection.hpp"
#include "comm/transports/cuda_ipc/shared_hub.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/streams/launch.hpp"

namespace ringspan::comm::cuda_ipc {
namespace {

using processes::Seat;
using Text = std::array<char, 256>;

Text text(const std::string& from) {
  Text to{};
  from.copy(to.data(), to.size() - 1);
  return to;
}

void require_one_machine(const std::vector<Seat>& seats) {
  for (const Seat& seat : seats)
    if (seat.machine != seats[0].machine)
      throw Error(ErrorKind::not_available,
                  concat("cuda_ipc: the processes run on ", seats[0].host.data(), " and on ",
                         seat.host.data(), "; it copies within one machine"));
}

/// What the processes share.
struct Meeting {
  std::shared_ptr<SharedHub> hub;
  std::shared_ptr<Lanes> lanes;
  std::shared_ptr<const cuda::Gpu> gpu;  // of this process, if it has a rank
  bool descriptors = false;              // every process may take every other's
};

bool descriptors_pass(const SharedHub& hub, const Bootstrap& bootstrap, double deadline) {
  char takes = 1;
  for (int process = 0; process < bootstrap.size; ++process)
    if (process != bootstrap.rank && !hub.watched(process).lets_take()) takes = 0;
  const std::vector<char> all = processes::all_gather(bootstrap, takes, deadline);
  return std::find(all.begin(), all.end(), 0) == all.end();
}

std::string new_name() {
  static std::atomic<int> launches{0};
  return concat("/ringspan-", getpid(), "-", launches++);
}

Meeting meet(const LaunchOptions& options, const Bootstrap& bootstrap,
             const std::vector<Seat>& seats) {
  const double deadline = processes::start_deadline(options);
  const bool creates = bootstrap.rank == 0;
  const Text name =
      processes::all_gather(bootstrap, text(creates ? new_name() : ""), deadline).front();
  const std::string hub_name = concat(name.data(), "-hub"),
                    lanes_name = concat(name.data(), "-lanes");
  Meeting meeting;
  // A step that all have taken, or none goes on; the first who failed has the word.
  const auto step = [&](const std::function<void()>& work) {
    std::string problem;
    try {
      work();
    } catch (const Error& error) {
      problem = error.what();
    }
    for (const Text& told : processes::all_gather(bootstrap, text(problem), deadline))
      if (told[0] != 0) throw Error(ErrorKind::system, told.data());
  };
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
    step([&] {
      if (creates) open();
    });
    step([&] {
      if (!creates) open();
    });
    step([&] {
      if (bootstrap.rank >= options.ranks) return;
      const auto cuda = cuda::load_cuda();
      meeting.gpu = std::make_shared<cuda::Gpu>(
          cuda, processes::rank_on_host(seats, bootstrap.rank) % cuda::device_count(*cuda));
    });
  } catch (const Error&) {
    remove();
    throw;
  }
  remove();
  meeting.hub->watch();
  meeting.descriptors = descriptors_pass(*meeting.hub, bootstrap, deadline);
  return meeting;
}

}  // namespace

void launch_in_processes(const LaunchOptions& options, const RankFunction& body) {
  const Bootstrap bootstrap = processes::bootstrap_of("cuda_ipc", options);
  const std::vector<Seat> seats = processes::agree(options, bootstrap);
  require_one_machine(seats);
  const Meeting meeting = meet(options, bootstrap, seats);
  const int rank = bootstrap.rank;
  streams::Watchdog watchdog;  // which frees their memory when all have left
  if (rank < options.ranks) {
    const auto take = [hub = meeting.hub](std::int64_t process, int number) {
      return hub->watched(static_cast<int>(process)).take(number);
    };
    const auto connect = [&](const std::shared_ptr<const cuda::Gpu>& gpu, int) {
      return std::make_unique<Connection>(
          meeting.lanes, std::make_shared<const Flags>(gpu, meeting.lanes), gpu, options.ranks,
          rank, options.debug.ledger, Connection::Apart{meeting.descriptors, take});
    };
    streams::run_rank(meeting.hub, rank, body, meeting.gpu, connect, watchdog);
  }
  meeting.hub->leave();
  processes::end_well(options);
}

}  // namespace ringspan::comm::cuda_ipc
