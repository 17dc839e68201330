// SPDX-License-Identifier: Apache-2.0
// Graphs of the emulated driver: what was queued while it was captured.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

struct CUgraph_st {
  std::vector<std::function<void()>> tasks;
  std::set<Address> kept;  // memory that it allocates and does not release
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> tasks;
  std::set<Address> kept;
  bool launched = false;
};

extern "C" {

constexpr Status kInvalidValue = 1, kInvalidHandle = 400, kIllegalState = 401;

Status cuStreamIsCapturing(StreamHandle stream, int* status) {
  if (const Status injected = emulation_injected("cuStreamIsCapturing")) return injected;
  if (!stream) return kInvalidHandle;
  const auto capture = stream->queue->capture();
  *status = !capture ? 0 : capture->valid() ? 1 : 2;
  return kSuccess;
}

Status cuStreamBeginCapture_v2(StreamHandle stream, int) {
  if (const Status status = emulation_injected("cuStreamBeginCapture")) return status;
  if (!stream) return kInvalidHandle;
  if (stream->queue->capture()) return kIllegalState;
  const auto capture = std::make_shared<emulation::Capture>(stream->queue);
  stream->queue->capture(capture);
  emulation::capture_here(capture);
  return kSuccess;
}

Status cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  if (!stream) return kInvalidHandle;
  const auto capture = stream->queue->capture();
  if (!capture) return kIllegalState;
  if (!capture->starts_at(stream->queue.get())) return emulation::kCaptureUnmatched;
  if (!capture->began_here()) return emulation::kCaptureWrongThread;
  std::vector<std::function<void()>> tasks;
  emulation::capture_here(nullptr);
  const bool joined = capture->end(tasks);
  if (!capture->valid()) return emulation::kCaptureInvalidated;
  if (!joined) return emulation::kCaptureUnjoined;
  if (const Status status = emulation_injected("cuStreamEndCapture")) return status;
  *graph = new CUgraph_st{std::move(tasks), capture->kept()};
  return kSuccess;
}

Status cuGraphInstantiateWithFlags(ExecutableHandle* executable, GraphHandle graph,
                                   unsigned long long) {
  if (const Status status = emulation_injected("cuGraphInstantiateWithFlags")) return status;
  if (!graph) return kInvalidHandle;
  *executable = new CUgraphExec_st{graph->tasks, graph->kept};
  return kSuccess;
}

Status cuGraphLaunch(ExecutableHandle executable, StreamHandle stream) {
  if (const Status status = emulation_injected("cuGraphLaunch")) return status;
  if (!executable || !stream) return kInvalidHandle;
  if (std::exchange(executable->launched, true) &&
      std::any_of(executable->kept.begin(), executable->kept.end(), emulation::is_allocated))
    return kInvalidValue;  // it would allocate again what is still there
  for (const auto& task : executable->tasks) stream->queue->push(task);
  return kSuccess;
}

Status cuGraphExecDestroy(ExecutableHandle executable) {
  delete executable;
  return kSuccess;
}

Status cuGraphDestroy(GraphHandle graph) {
  delete graph;
  return kSuccess;
}
}
