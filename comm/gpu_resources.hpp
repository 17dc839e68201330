// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace ringspan::comm {

/// What a caller brings for the GPU of one rank, as a trainer that has its own; all of it may be
/// left out. It outlives the launch and all buffers of it; after a launch that has failed while the
/// GPU was still busy (a line on stderr says so), it lives as long as the process.
struct GpuResources {
  /// A cudaStream_t or CUstream of that GPU, on which the rank's kernels and copies are queued. It
  /// stays the caller's. The rank's end waits for all that is queued there by then; other
  /// threads may go on queueing. Null: a stream of Ringspan's own, which is not ordered with the
  /// default stream. Default streams (null, cudaStreamLegacy, cudaStreamPerThread) cannot be
  /// brought: make one (cudaStreamCreateWithFlags) and use it.
  void* compute_stream = nullptr;

  /// Where device memory comes from, in place of the driver's pool or, between processes on
  /// cuda_ipc, of memory that the others are let into. Both or neither. They are called with the
  /// GPU current. Memory is aligned to 64 bytes; null: there is none. What allocate throws while
  /// the launch starts, all ranks hear; afterwards it comes out of Device::allocate().
  std::function<void*(std::int64_t bytes, void* stream)> allocate = {};
  /// Must not throw, and may be called on any thread. Work that is queued on the stream before may
  /// still use the memory.
  std::function<void(void* memory, std::int64_t bytes, void* stream)> release = {};
};

/// Called once for each rank of this process, on its thread, with its GPU current. Whatever it
/// throws, all ranks hear.
using BringGpuResources = std::function<GpuResources(int rank)>;

}  // namespace ringspan::comm
