// SPDX-License-Identifier: Apache-2.0
// NCCL among the threads of one process, as strict as it may be: nothing is buffered, a message
// holds up its stream until the other side is there, calls are in progress until they are asked
// about, and queue nothing before, and what differs in size never ends.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "comm/transports/nccl/api.hpp"
#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::nccl;
using ringspan::comm::cuda::StreamHandle;

extern "C" int cuLaunchHostFunc(StreamHandle, void (*)(void*), void*);

namespace {

constexpr Status kUnhandledCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5;

struct Half {
  void* data;
  std::size_t bytes;
  bool over = false;
};

struct Lane {
  std::deque<Half*> sends, recvs;
};

/// What the ranks of one unique id share.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0, finalized = 0;
  std::set<int> gpus;
  std::map<std::pair<int, int>, Lane> lanes;  // [from, to]

  void match(Lane& lane) {
    while (!lane.sends.empty() && !lane.recvs.empty()) {
      Half &sent = *lane.sends.front(), &received = *lane.recvs.front();
      if (sent.bytes != received.bytes) return;
      std::memcpy(received.data, sent.data, sent.bytes);
      sent.over = received.over = true;
      lane.sends.pop_front();
      lane.recvs.pop_front();
    }
    changed.notify_all();
  }
};

struct Group;

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, size = 0;
  bool duplicate = false;
  // Under the world's mutex:
  bool aborted = false, finalizing = false;
  int running = 0, queued = 0;
  bool asked = true;                                                     // since the last call
  std::vector<std::pair<StreamHandle, std::unique_ptr<Group>>> grouped;  // not queued yet
};

struct Call {
  std::shared_ptr<Comm> comm;
  StreamHandle stream;
  bool sends;
  int peer;
  Half half;
};

/// Messages that make progress together, as one kernel of a stream.
struct Group {
  std::shared_ptr<Comm> comm;
  std::vector<Call> calls;
  bool stuck = false;

  static void run(void* data) { std::unique_ptr<Group>(static_cast<Group*>(data))->exchange(); }

  std::deque<Half*>& side(const Call& call) const {
    const int from = call.sends ? comm->rank : call.peer, to = call.sends ? call.peer : comm->rank;
    Lane& lane = comm->world->lanes[{from, to}];
    return call.sends ? lane.sends : lane.recvs;
  }

  void exchange() {
    World& world = *comm->world;
    std::unique_lock lock(world.mutex);
    ++comm->running;
    for (Call& call : calls) {
      if (stuck || comm->aborted) break;
      side(call).push_back(&call.half);
      world.match(world.lanes[call.sends ? std::pair(comm->rank, call.peer)
                                         : std::pair(call.peer, comm->rank)]);
    }
    world.changed.wait(lock, [this] { return comm->aborted || (!stuck && over()); });
    for (const Call& call : calls) std::erase(side(call), &call.half);
    --comm->running;
    --comm->queued;
    world.changed.notify_all();
  }

  bool over() const {
    for (const Call& call : calls)
      if (!call.half.over) return false;
    return true;
  }
};

// Under the world's mutex.
Status queue_grouped(Comm& comm) {
  for (auto& [stream, group] : comm.grouped) {
    if (cuLaunchHostFunc(stream, Group::run, group.get()) != 0) return kUnhandledCudaError;
    group.release();  // to the stream
  }
  comm.grouped.clear();
  return kSuccess;
}

struct Worlds {
  std::mutex mutex;
  std::map<long, std::weak_ptr<World>> by_id;
};

Worlds& worlds() {
  static Worlds* const all = new Worlds;
  return *all;
}

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
  static std::atomic<long> next{1};
  const long number = next++;
  std::memcpy(id->bytes, &number, sizeof(number));
  return emulation_injected("ncclGetUniqueId");
}

Status ncclCommInitRankConfig(CommHandle* handle, int ranks, UniqueId id, int rank,
                              Config* config) {
  if (const Status status = emulation_injected("ncclCommInitRankConfig")) return status;
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks)
    return kInvalidArgument;
  long number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  const auto comm = std::make_shared<Comm>();
  {
    const std::lock_guard lock(worlds().mutex);
    std::weak_ptr<World>& known = worlds().by_id[number];
    comm->world = known.lock();
    if (!comm->world) known = comm->world = std::make_shared<World>();
  }
  comm->rank = rank;
  comm->size = ranks;
  const std::lock_guard lock(comm->world->mutex);
  comm->duplicate = !comm->world->gpus.insert(emulation::current_ordinal()).second;
  ++comm->world->joined;
  *handle = new ncclComm{comm};
  return kInProgress;
}

Status ncclCommGetAsyncError(CommHandle handle, Status* state) {
  Comm& comm = *handle->comm;
  const std::lock_guard lock(comm.world->mutex);
  *state = emulation_injected("asyncError");
  if (*state == kSuccess) *state = queue_grouped(comm);
  if (*state == kSuccess && comm.duplicate) *state = kInvalidUsage;
  if (*state != kSuccess) return kSuccess;
  const bool quiet = comm.queued == 0 && comm.world->finalized == comm.size;
  const bool ended = !comm.finalizing || quiet;
  const bool ready = comm.world->joined >= comm.size && comm.asked && ended;
  comm.asked = true;
  *state = ready ? kSuccess : kInProgress;
  return kSuccess;
}

Status ncclCommFinalize(CommHandle handle) {
  if (const Status status = emulation_injected("ncclCommFinalize")) return status;
  Comm& comm = *handle->comm;
  const std::lock_guard lock(comm.world->mutex);
  comm.finalizing = true;
  ++comm.world->finalized;
  return kInProgress;
}

Status ncclCommDestroy(CommHandle handle) {
  delete handle;
  return kSuccess;
}

// What runs ends; what is still queued will, when it begins.
Status ncclCommAbort(CommHandle handle) {
  {
    Comm& comm = *handle->comm;
    std::unique_lock lock(comm.world->mutex);
    comm.aborted = true;
    comm.queued -= static_cast<int>(comm.grouped.size());
    comm.grouped.clear();
    comm.world->changed.notify_all();
    comm.world->changed.wait(lock, [&] { return comm.running == 0; });
  }
  delete handle;
  return kSuccess;
}

const char* ncclGetErrorString(Status status) {
  return status == 6 ? "remote process exited or there was a network error" : "emulated error";
}

const char* ncclGetLastError(CommHandle) { return ""; }

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
    const std::lock_guard lock(comm.world->mutex);
    ++comm.queued;
    comm.asked = false;
    comm.grouped.emplace_back(key.second, std::move(group));
  }
  return kInProgress;
}

static Status add(const Call& call) {
  if (call.peer < 0 || call.peer >= call.comm->size || !call.stream) return kInvalidArgument;
  {
    const std::lock_guard lock(call.comm->world->mutex);
    if (call.comm->world->joined < call.comm->size || !call.comm->asked) return kInvalidUsage;
  }
  ncclGroupStart();
  calls.push_back(call);
  return ncclGroupEnd();
}

Status ncclSend(const void* data, std::size_t count, int, int peer, CommHandle handle,
                StreamHandle stream) {
  return add({handle->comm, stream, true, peer, {const_cast<void*>(data), count}});
}

Status ncclRecv(void* data, std::size_t count, int, int peer, CommHandle handle,
                StreamHandle stream) {
  return add({handle->comm, stream, false, peer, {data, count}});
}
}
