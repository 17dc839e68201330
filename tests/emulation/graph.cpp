// SPDX-License-Identifier: Apache-2.0
// Graphs of the emulated driver: what was queued on one stream while it was captured.
#include <functional>
#include <vector>

#include "tests/emulation/faults.hpp"
#include "tests/emulation/stream.hpp"

using namespace ringspan::comm::cuda;

struct CUgraph_st {
  std::vector<std::function<void()>> tasks;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> tasks;
};

extern "C" {

constexpr Status kInvalidHandle = 400, kIllegalState = 401, kCaptureInvalidated = 901;

Status cuStreamIsCapturing(StreamHandle stream, int* status) {
  if (const Status injected = emulation_injected("cuStreamIsCapturing")) return injected;
  if (!stream) return kInvalidHandle;
  *status = stream->queue->capture_invalid() ? 2 : stream->queue->capturing() ? 1 : 0;
  return kSuccess;
}

Status cuStreamBeginCapture_v2(StreamHandle stream, int) {
  if (const Status status = emulation_injected("cuStreamBeginCapture")) return status;
  if (!stream) return kInvalidHandle;
  if (!stream->queue->begin_capture()) return kIllegalState;
  emulation::capture_here(stream->queue);
  return kSuccess;
}

Status cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  if (!stream) return kInvalidHandle;
  std::vector<std::function<void()>> tasks;
  const bool invalid = stream->queue->capture_invalid();
  if (!stream->queue->end_capture(tasks)) return kIllegalState;
  emulation::capture_here(nullptr);
  if (invalid) return kCaptureInvalidated;
  if (const Status status = emulation_injected("cuStreamEndCapture")) return status;
  *graph = new CUgraph_st{std::move(tasks)};
  return kSuccess;
}

Status cuGraphInstantiateWithFlags(ExecutableHandle* executable, GraphHandle graph,
                                   unsigned long long) {
  if (const Status status = emulation_injected("cuGraphInstantiateWithFlags")) return status;
  if (!graph) return kInvalidHandle;
  *executable = new CUgraphExec_st{graph->tasks};
  return kSuccess;
}

Status cuGraphLaunch(ExecutableHandle executable, StreamHandle stream) {
  if (const Status status = emulation_injected("cuGraphLaunch")) return status;
  if (!executable || !stream) return kInvalidHandle;
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
