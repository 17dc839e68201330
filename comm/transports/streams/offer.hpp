// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comm/devices/cuda/api.hpp"
#include "comm/error.hpp"
#include "comm/transports/streams/operation.hpp"

namespace ringspan::comm::streams {

/// How a process lets others into an allocation.
enum class HandleKind {
  legacy,
  descriptor,  // the number of one of its files, in the handle's first bytes
  fabric,
};

/// Memory of one message, as the rank that owns it tells another: rows as in a Slice, within an
/// allocation that the owner's process knows as `base`.
struct Place {
  std::int64_t process = 0;  // whose addresses these are
  cuda::Address base = 0;
  std::uint64_t buffer_id = 0;  // of the driver; an allocation at the same address has another
  HandleKind kind = HandleKind::legacy;
  cuda::IpcHandle handle = {};  // of the allocation; unused within one process
  bool pooled = false;          // stays as long as the owner's connection
  std::int64_t bytes = 0;       // of the allocation
  std::int64_t offset = 0, rows = 0, row_bytes = 0, stride = 0;
};

/// One half of a message, as both sides see it.
struct Offer {
  std::int64_t channel = 0, sequence = 0, bytes = 0;
  char operation[64] = {};  // cut off, if need be
  Place place = {};         // where the other side reaches into this one's memory
};

Offer offer(const Operation& operation, const Message& message);

/// What is wrong where `mine`, this rank's half of the message, and the other side's do not fit.
/// `strict`: what the debug ledger asks for, too.
std::optional<Error> mismatch(int rank, const Message& message, const Offer& mine,
                              const Offer& other, bool strict);

}  // namespace ringspan::comm::streams
