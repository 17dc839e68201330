// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/device.hpp"
#include "comm/devices/cuda/memory.hpp"

namespace ringspan::comm::cuda {

/// Reductions of device memory in the order of a stream, without a kernel: piece by piece to the
/// host, which reduces, and back. As slow as the bus; needed by collectives alone.
class HostReduction {
 public:
  HostReduction(const Stream& stream, const std::shared_ptr<Memory>& memory);

  /// Queues to[i] = reduce(to[i], from[i]); both are contiguous and equally long.
  void queue(const Slice& to, const Slice& from, Element element, Reduction reduction);

 private:
  void queue_piece(const Slice& to, const Slice& from, Element element, Reduction reduction);

  const Stream& stream_;
  const std::shared_ptr<Memory> memory_;
  Buffer first_, second_;  // of a piece, made when first needed
};

}  // namespace ringspan::comm::cuda
