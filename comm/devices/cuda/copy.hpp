// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/buffer.hpp"
#include "comm/devices/cuda/gpu.hpp"

namespace ringspan::comm::cuda {

/// Queues to = from; the slices have equal bytes, and may be of any memory that the GPU reaches.
/// Rows that both sides cut alike are one operation.
void queue_copy(const Stream& stream, const Slice& to, const Slice& from);

}  // namespace ringspan::comm::cuda
