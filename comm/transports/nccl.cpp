// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, or as processes of any machines, each with a GPU of its own. A
// batch is one group of NCCL's sends and receives on the rank's transfer stream. Ranks post in one
// order across all their groups, so one communicator serves them all, and a group costs nothing.
#include <vector>

#include "comm/transports/nccl/connection.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/streams/launch.hpp"
#include "comm/transports/streams/processes.hpp"

namespace ringspan::comm {
namespace nccl {
namespace {

UniqueId new_id(const Api& nccl) {
  UniqueId id;
  check(nccl, nccl.get_unique_id(&id), nullptr, "ncclGetUniqueId");
  return id;
}

void launch_in_threads(const LaunchOptions& options, const RankFunction& body) {
  const auto cuda = cuda::load_cuda();
  const auto nccl = load_nccl();
  streams::require_gpu_each("nccl", *cuda, options.ranks);
  const UniqueId id = new_id(*nccl);
  const auto lanes = std::make_shared<Lanes>(
      std::make_unique<streams::SharedMemory>(Lanes::bytes(options.ranks)), options.ranks);
  lanes->start();
  streams::launch_threads(options, body, cuda,
                          [&](const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
                            return std::make_unique<Connection>(nccl, gpu, lanes, id, options.ranks,
                                                                rank, options.debug.ledger);
                          });
}

/// What a process tells the others.
struct Introduction {
  cuda::Uuid gpu;
  UniqueId id;  // of the world, from the first process
};

// Processes may see one GPU each, under the same number.
void require_own_gpus(int ranks, const std::vector<Introduction>& all) {
  for (int rank = 0; rank < ranks; ++rank)
    for (int other = 0; other < rank; ++other)
      RINGSPAN_REQUIRE(all[other].gpu != all[rank].gpu, "nccl: ranks ", other, " and ", rank,
                       " have the same GPU; every rank needs one of its own");
}

void launch_in_processes(const LaunchOptions& options, const RankFunction& body) {
  const auto prepare = [&](const streams::Meeting& meeting) -> streams::Connect {
    std::shared_ptr<const Api> nccl;
    Introduction mine;
    processes::all_or_none(meeting.bootstrap, meeting.deadline, [&] {
      nccl = load_nccl();
      if (meeting.gpu) mine.gpu = meeting.gpu->uuid();
      if (meeting.bootstrap.rank == 0) mine.id = new_id(*nccl);
    });
    const auto all = processes::all_gather(meeting.bootstrap, mine, meeting.deadline);
    require_own_gpus(options.ranks, all);
    const UniqueId id = all.front().id;
    return [=, &options, lanes = meeting.lanes](const std::shared_ptr<const cuda::Gpu>& gpu,
                                                int rank) {
      return std::make_unique<Connection>(nccl, gpu, lanes, id, options.ranks, rank,
                                          options.debug.ledger);
    };
  };
  streams::launch_processes("nccl", streams::Reach::any_machines, options, body, prepare);
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "nccl: hops by reference need one memory; between GPUs, copy");
  if (processes::are_apart(options)) return launch_in_processes(options, body);
  launch_in_threads(options, body);
}

std::string unavailable() {
  try {
    cuda::load_cuda();
    load_nccl();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string found() {
  const auto cuda = cuda::load_cuda();
  return concat("NCCL ", version_text(*load_nccl()), "; ", cuda::device_count(*cuda),
                " GPUs, the first ", cuda::device_name(*cuda, 0));
}

}  // namespace
}  // namespace nccl

Backend nccl_backend() {
  return {"nccl",
          "ranks are threads of this process, or processes, each with a GPU, over NCCL",
          "gpu",
          nccl::unavailable,
          nccl::launch_ranks,
          processes::has_launcher() ? processes::own_process : nullptr,
          nccl::found};
}

}  // namespace ringspan::comm
