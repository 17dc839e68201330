// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "comm/devices/cuda/device.hpp"

namespace ringspan::comm::processes {

/// What a rank needs whose memory is a GPU's, while the wire is the host's: staging in memory that
/// both reach, filled and emptied in the order of the compute stream.
class GpuSide {
 public:
  /// `wire_reaches_gpus`: it takes addresses of device memory.
  GpuSide(cuda::CudaDevice& device, bool wire_reaches_gpus)
      : device_(device), wire_reaches_gpus_(wire_reaches_gpus) {}

  /// Whether the wire takes the slice as it is, once what is queued has run.
  bool direct(const Slice& slice) const {
    return slice.contiguous() && (wire_reaches_gpus_ || device_.holds_values(slice));
  }

  /// Memory for a message.
  Buffer take(std::int64_t bytes);
  /// Queues the copy into the message, or out of it.
  void pack(const Buffer& message, const Slice& from);
  void unpack(const Slice& to, const Buffer& message);

  /// A blocking device waits for what was unpacked. Not from within progress, which waiting makes.
  void finished() { device_.queued(); }

  /// What has been queued so far.
  std::shared_ptr<const cuda::Event> queued() const;

 private:
  /// A message that is in use until what was queued has run.
  struct Used {
    Buffer message;
    std::shared_ptr<const cuda::Event> until;
  };

  void reuse();

  cuda::CudaDevice& device_;
  const bool wire_reaches_gpus_;
  std::vector<Buffer> free_;  // those with one owner
  std::list<Used> used_;
};

}  // namespace ringspan::comm::processes
