// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/device.hpp"

namespace ringspan::comm {

/// Counts a device's memory. Outlives the device for as long as one of its buffers does, and may be
/// used by any thread, as buffers may be released on any.
class MemoryCounters {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t seen = peak_.load(std::memory_order_relaxed);
    while (seen < now && !peak_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(std::int64_t bytes) { current_.fetch_sub(bytes, std::memory_order_relaxed); }

  MemoryUse use() const { return {current_, peak_}; }
  void reset_peak() { peak_ = current_.load(); }

 private:
  std::atomic<std::int64_t> current_{0}, peak_{0};
};

}  // namespace ringspan::comm
