// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/buffer.hpp"
#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/streams/offer.hpp"

namespace ringspan::comm::cuda_ipc {

using streams::HandleKind;
using streams::Place;

/// Lets other processes into the mapped memory that the slice lies in, wherever that came from, by
/// a handle of a kind that the pointer itself says it has: a file descriptor, where processes may
/// take each other's, or fabric. Not by a legacy handle: memory that another process has opened by
/// one must not be freed before it is closed there, and its owner may be about to. Fills in the
/// place; what is returned is to be held until the other side has opened it. Null: there is no such
/// kind, or the slice goes on beyond the allocation, so that its bytes have to go through the pool.
std::shared_ptr<const void> export_allocation(const cuda::Gpu& gpu, const Slice& slice,
                                              bool descriptors, Place& place);

}  // namespace ringspan::comm::cuda_ipc
