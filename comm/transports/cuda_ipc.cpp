// SPDX-License-Identifier: Apache-2.0
// Ranks on the GPUs of one machine, copied between by their copy engines: no kernel takes part.
// Where ranks are threads of one process, a GPU reads and writes the others' memory by its
// addresses; where they are processes, what they export to each other.
#include <algorithm>
#include <vector>

#include "comm/transports/cuda_ipc/connection.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/streams/launch.hpp"
#include "comm/transports/streams/processes.hpp"

namespace ringspan::comm {
namespace cuda_ipc {
namespace {

void require_reach(const cuda::Api& cuda, cuda::Ordinal gpu, cuda::Ordinal peer) {
  int reaches = gpu == peer;
  if (!reaches)
    cuda::check(cuda, cuda.can_access_peer(&reaches, gpu, peer), "cuDeviceCanAccessPeer");
  if (!reaches)
    throw Error(ErrorKind::not_available, concat("cuda_ipc: GPU ", gpu, " does not reach GPU ",
                                                 peer, "'s memory; use nccl or ucx"));
}

// A process may see no GPU but its own, under any number; of those that it sees, its own must reach
// those that other ranks have.
void require_reach(const cuda::Gpu& own, const std::vector<cuda::Uuid>& of_ranks) {
  const cuda::Api& cuda = own.api();
  for (cuda::Ordinal peer = 0; peer < cuda::device_count(cuda); ++peer)
    if (std::find(of_ranks.begin(), of_ranks.end(), cuda::uuid_of(cuda, peer)) != of_ranks.end())
      require_reach(cuda, own.ordinal(), peer);
}

void launch_in_threads(const LaunchOptions& options, const RankFunction& body) {
  const auto cuda = cuda::load_cuda();
  streams::require_gpu_each("cuda_ipc", *cuda, options.ranks);
  for (int gpu = 0; gpu < options.ranks; ++gpu)
    for (int peer = 0; peer < options.ranks; ++peer) require_reach(*cuda, gpu, peer);
  const auto lanes = std::make_shared<Lanes>(
      std::make_unique<streams::SharedMemory>(Lanes::bytes(options.ranks)), options.ranks);
  lanes->start();
  const auto flags = std::make_shared<const Flags>(std::make_shared<cuda::Gpu>(cuda, 0), lanes);
  streams::launch_threads(
      options, body, cuda, [&](const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
        return std::make_unique<Connection>(lanes, flags, gpu, options.ranks, rank,
                                            options.debug.ledger, std::nullopt);
      });
}

bool descriptors_pass(const streams::Meeting& meeting) {
  const Bootstrap& bootstrap = meeting.bootstrap;
  char takes = 1;
  for (int process = 0; process < bootstrap.size; ++process)
    if (process != bootstrap.rank && !meeting.hub->watched(process).lets_take()) takes = 0;
  const auto all = processes::all_gather(bootstrap, takes, meeting.deadline);
  return std::find(all.begin(), all.end(), 0) == all.end();
}

void launch_in_processes(const LaunchOptions& options, const RankFunction& body) {
  const auto prepare = [&](const streams::Meeting& meeting) -> streams::Connect {
    const auto mine = meeting.gpu ? meeting.gpu->uuid() : cuda::Uuid();
    const auto uuids = processes::all_gather(meeting.bootstrap, mine, meeting.deadline);
    processes::all_or_none(meeting.bootstrap, meeting.deadline, [&] {
      if (meeting.gpu) require_reach(*meeting.gpu, uuids);
    });
    const bool descriptors = descriptors_pass(meeting);
    return [&, descriptors](const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
      const auto take = [hub = meeting.hub](std::int64_t process, int number) {
        return hub->watched(static_cast<int>(process)).take(number);
      };
      return std::make_unique<Connection>(
          meeting.lanes, std::make_shared<const Flags>(gpu, meeting.lanes), gpu, options.ranks,
          rank, options.debug.ledger, Connection::Apart{descriptors, take});
    };
  };
  streams::launch_processes("cuda_ipc", streams::Reach::one_machine, options, body, prepare);
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "cuda_ipc: hops by reference need one memory; between GPUs, copy");
  if (processes::are_apart(options)) return launch_in_processes(options, body);
  launch_in_threads(options, body);
}

std::string unavailable() {
  try {
    cuda::load_cuda();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string found() {
  const auto cuda = cuda::load_cuda();
  return concat(cuda::device_count(*cuda), " GPUs, the first ", cuda::device_name(*cuda, 0));
}

}  // namespace
}  // namespace cuda_ipc

Backend cuda_ipc_backend() {
  return {
      "cuda_ipc",
      "ranks are threads of this process, or processes of one machine, each with a GPU, by their "
      "copy engines",
      "gpu",
      cuda_ipc::unavailable,
      cuda_ipc::launch_ranks,
      processes::has_launcher() ? processes::own_process : nullptr,
      cuda_ipc::found};
}

}  // namespace ringspan::comm
