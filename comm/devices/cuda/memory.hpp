// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "comm/buffer.hpp"
#include "comm/devices/cuda/gpu.hpp"
#include "comm/devices/cuda/pinned_memory.hpp"
#include "comm/devices/memory_counters.hpp"

namespace ringspan::comm::cuda {

/// Where device memory comes from, if not from the driver's pool. Both are called with the GPU
/// current and no lock held; what was released may be used again by work that is queued on the
/// stream later.
struct Allocator {
  std::function<std::byte*(std::int64_t bytes, StreamHandle)> allocate;  // null: out of memory
  std::function<void(std::byte*, std::int64_t bytes, StreamHandle)> release;
  /// Gives what was released, and no queued work uses, back to the driver. False: nothing.
  std::function<bool(StreamHandle)> give_back = {};
  /// What was released stays memory of this GPU even if a failure ends waits out of order. Without,
  /// a transport holds on to what it moves until the host has seen it over.
  bool stays = false;
};

/// Memory of one GPU, in the order of its compute stream: a buffer may be let go of while work that
/// uses it is still queued there. Shared with the buffers, whichever goes last.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  Memory(std::shared_ptr<const Stream> compute, Allocator allocator, bool poison);
  ~Memory();

  /// Device memory; not `counted` if kernels need it for themselves. If there is none, `settle` is
  /// to wait for what is queued, and memory that was released to be given back first.
  Buffer allocate(std::int64_t bytes, bool counted = true,
                  const std::function<void()>& settle = {});
  /// Host memory that the GPU reaches; not `counted` if the library needs it for itself.
  Buffer allocate_values(std::int64_t bytes, bool counted = true);
  /// Whether it lies in device memory, or in values, that have not been let go of.
  bool holds(const std::byte* address) const;
  bool holds_values(const std::byte* address) const;
  /// Whether it lies in device memory that stays, see Allocator.
  bool keeps(const std::byte* address) const { return allocator_.stays && holds(address); }

  MemoryUse use() const { return counters_.use(); }
  void reset_peak() { counters_.reset_peak(); }

 private:
  struct Block {
    std::int64_t bytes = 0;
    bool captured = false;  // allocated while a graph was captured, which so may release it
  };

  using Blocks = std::map<std::byte*, Block, std::less<>>;  // [first byte]

  bool lies_in(const Blocks& blocks, const std::byte* address) const;
  void fill_with_nan(std::byte* data, std::int64_t bytes) const;
  void release(std::byte* data);
  void release_aside();
  Blocks::node_type next_aside();  // that can be released now; empty: none
  void release_values(std::byte* data);

  const std::shared_ptr<const Stream> compute_;
  const Gpu& gpu_;
  const Allocator allocator_;
  const bool poison_;
  PinnedMemory pinned_;
  MemoryCounters counters_;
  mutable std::mutex mutex_;  // of what follows
  Blocks device_, values_;
  Blocks aside_;  // let go of while a graph was captured that they are no part of
};

}  // namespace ringspan::comm::cuda
