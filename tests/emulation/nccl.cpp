// SPDX-License-Identifier: Apache-2.0
// NCCL among threads and processes, as strict as it may be: nothing is buffered, a message holds up
// its stream until the other side is there, calls are in progress until they are asked about, and
// queue nothing before, and what differs in size never ends.
#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/transports/nccl/api.hpp"
#include "tests/emulation/faults.hpp"
#include "tests/emulation/nccl_world.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::nccl;
using ringspan::comm::cuda::StreamHandle;

namespace {

using emulation::World;

constexpr Status kUnhandledCudaError = 1, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5;

struct Group;

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, size = 0;
  // Under the world's lock:
  bool duplicate = false;
  bool aborted = false, finalizing = false;
  int queued = 0, captured = 0;                                          // groups
  bool asked = true;                                                     // since the last call
  std::vector<std::pair<StreamHandle, std::unique_ptr<Group>>> grouped;  // not queued yet
};

struct Call {
  std::shared_ptr<Comm> comm;
  StreamHandle stream;
  World::Half half;
};

/// Messages that make progress together, as one kernel of a stream.
struct Group {
  std::shared_ptr<Comm> comm;
  std::vector<Call> calls;
  bool stuck = false;

  void exchange() {
    World& world = *comm->world;
    const std::lock_guard lock(world);
    world.wait([this] { return comm->aborted || over(); });
    for (Call& call : calls) world.withdraw(call.half);
    --comm->queued;
    world.ring();
  }

  bool over() {
    if (stuck) return false;
    bool moved = false, again = true;
    while (std::exchange(again, false))  // one to itself has both its halves here
      for (Call& call : calls)
        if (!call.half.over && comm->world->advance(call.half)) moved = again = true;
    if (moved) comm->world->ring();
    return std::all_of(calls.begin(), calls.end(), [](const Call& call) { return call.half.over; });
  }
};

/// A group of a graph, anew at each launch. The communicator does not end before the graph does.
class CapturedGroup {
 public:
  explicit CapturedGroup(std::unique_ptr<Group> group) : group_(std::move(group)) {}
  ~CapturedGroup() {
    const std::lock_guard lock(*group_->comm->world);
    --group_->comm->captured;
    group_->comm->world->ring();
  }
  CapturedGroup(const CapturedGroup&) = delete;
  CapturedGroup& operator=(const CapturedGroup&) = delete;

  void exchange() const {
    Group group = *group_;
    {
      const std::lock_guard lock(*group.comm->world);
      ++group.comm->queued;
    }
    group.exchange();
  }

 private:
  const std::unique_ptr<const Group> group_;
};

// Under the world's lock.
Status queue_grouped(Comm& comm) {
  for (auto& [stream, group] : comm.grouped) {
    if (stream->queue->capture()) {
      --comm.queued;
      ++comm.captured;
      const auto captured = std::make_shared<const CapturedGroup>(std::move(group));
      stream->queue->push([captured] { captured->exchange(); });
    } else {
      const std::shared_ptr<Group> queued = std::move(group);
      stream->queue->push([queued] { queued->exchange(); });
    }
  }
  comm.grouped.clear();
  return kSuccess;
}

thread_local const char* last_error = "";
thread_local int depth = 0;
thread_local std::vector<Call> calls;

}  // namespace

struct ncclComm {
  std::shared_ptr<Comm> comm;
};

extern "C" {

Status ncclGetVersion(int* version) {
  const int other = emulation_injected("ncclVersion");
  *version = other ? other : 22105;
  return kSuccess;
}

Status ncclGetUniqueId(UniqueId* id) {
  if (const Status status = emulation_injected("ncclGetUniqueId")) {
    last_error = "no socket interface found";
    return status;
  }
  return World::create(*id) ? kSuccess : kSystemError;
}

Status ncclCommInitRankConfig(CommHandle* handle, int ranks, UniqueId id, int rank,
                              Config* config) {
  if (const Status status = emulation_injected("ncclCommInitRankConfig")) return status;
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks ||
      ranks > World::kMostRanks)
    return kInvalidArgument;
  const auto comm = std::make_shared<Comm>();
  comm->world = World::find(id);
  if (!comm->world) return kRemoteError;
  comm->rank = rank;
  comm->size = ranks;
  const std::lock_guard lock(*comm->world);
  comm->duplicate = !comm->world->join(emulation::current_gpu());
  *handle = new ncclComm{comm};
  return kInProgress;
}

Status ncclCommGetAsyncError(CommHandle handle, Status* state) {
  if (emulation_injected("killed")) raise(SIGKILL);
  Comm& comm = *handle->comm;
  const std::lock_guard lock(*comm.world);
  *state = emulation_injected("asyncError");
  if (*state == kSuccess) *state = queue_grouped(comm);
  if (*state == kSuccess && comm.duplicate) *state = kInvalidUsage;
  if (*state != kSuccess) return kSuccess;
  const bool quiet = comm.queued == 0 && comm.captured == 0 && comm.world->finalized() == comm.size;
  const bool ended = !comm.finalizing || quiet;
  const bool ready = comm.world->joined() >= comm.size && comm.asked && ended;
  comm.asked = true;
  *state = ready ? kSuccess : kInProgress;
  return kSuccess;
}

Status ncclCommFinalize(CommHandle handle) {
  if (const Status status = emulation_injected("ncclCommFinalize")) return status;
  if (emulation::current_ordinal() < 0) return kUnhandledCudaError;
  Comm& comm = *handle->comm;
  const std::lock_guard lock(*comm.world);
  comm.finalizing = true;
  comm.world->finalize();
  return kInProgress;
}

Status ncclCommDestroy(CommHandle handle) {
  if (emulation::current_ordinal() < 0) return kUnhandledCudaError;
  delete handle;
  return kSuccess;
}

// What runs ends; what is still queued does when it begins, and is waited for. On whatever GPU is
// the calling thread's: without any, it would be the first one.
Status ncclCommAbort(CommHandle handle) {
  if (emulation::current_ordinal() < 0) return kUnhandledCudaError;
  {
    Comm& comm = *handle->comm;
    const std::lock_guard lock(*comm.world);
    comm.aborted = true;
    comm.queued -= static_cast<int>(comm.grouped.size());
    comm.grouped.clear();
    comm.world->ring();
    comm.world->wait([&] { return comm.queued == 0 && comm.captured == 0; });
  }
  delete handle;
  return kSuccess;
}

const char* ncclGetErrorString(Status status) {
  return status == 6 ? "remote process exited or there was a network error" : "emulated error";
}

const char* ncclGetLastError(CommHandle) { return last_error; }

Status ncclGroupStart() {
  ++depth;
  return kSuccess;
}

Status ncclGroupEnd() {
  if (--depth > 0) return kSuccess;
  std::vector<Call> all;
  all.swap(calls);
  if (const Status status = emulation_injected("ncclGroupEnd")) return status;
  std::map<std::pair<Comm*, StreamHandle>, std::unique_ptr<Group>> groups;
  for (Call& call : all) {
    std::unique_ptr<Group>& group = groups[{call.comm.get(), call.stream}];
    if (!group) group = std::make_unique<Group>(Group{call.comm, {}});
    group->calls.push_back(std::move(call));
  }
  for (auto& [key, group] : groups) {
    group->stuck = emulation_injected("ncclKernel") != 0;
    Comm& comm = *key.first;
    const std::lock_guard lock(*comm.world);
    ++comm.queued;
    comm.asked = false;
    comm.grouped.emplace_back(key.second, std::move(group));
  }
  return kInProgress;
}

static Status add(const Call& call, int peer) {
  if (peer < 0 || peer >= call.comm->size || !call.stream) return kInvalidArgument;
  {
    const std::lock_guard lock(*call.comm->world);
    if (call.comm->world->joined() < call.comm->size || !call.comm->asked) return kInvalidUsage;
  }
  ncclGroupStart();
  calls.push_back(call);
  return ncclGroupEnd();
}

Status ncclSend(const void* data, std::size_t count, int, int peer, CommHandle handle,
                StreamHandle stream) {
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
  return add({handle->comm, stream, {handle->comm->rank, peer, true, bytes, count}}, peer);
}

Status ncclRecv(void* data, std::size_t count, int, int peer, CommHandle handle,
                StreamHandle stream) {
  auto* const bytes = static_cast<std::byte*>(data);
  return add({handle->comm, stream, {peer, handle->comm->rank, false, bytes, count}}, peer);
}
}
