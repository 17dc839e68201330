// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "comm/devices/cuda/gpu.hpp"

namespace ringspan::comm::cuda {

/// Memory of the host that GPUs reach. What is put back is used again once nothing queued uses it,
/// and freed with this: freeing waits for all GPUs of the process, and one may wait for a message
/// that the calling thread has yet to post. Safe to use from any thread.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}
  /// What a stream that does not end still uses is left to it.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// For use on that stream. Throws invalid_argument while a graph is captured there: neither can
  /// the driver be asked for memory then, nor what has run.
  std::byte* take(std::int64_t bytes, StreamHandle stream);
  /// What is queued on the stream so far may still use it.
  void put(std::byte* data, std::int64_t bytes, StreamHandle stream);

 private:
  struct Block {
    std::byte* data;
    std::int64_t size;
    StreamHandle stream;
    std::unique_ptr<const Event> unused;  // null: it was at once

    bool is_unused() const { return !unused || unused->done(); }
  };

  bool capturing(StreamHandle stream) const;
  std::unique_ptr<const Event> end_of(StreamHandle stream) const;
  void record();
  bool free_unused();

  const std::shared_ptr<const Gpu> gpu_;
  std::mutex mutex_;                               // of what follows
  std::list<Block> aside_;                         // put back while a graph was captured
  std::map<std::int64_t, std::list<Block>> free_;  // [size], the first put back first
};

}  // namespace ringspan::comm::cuda
