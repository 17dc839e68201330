// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// slice i of `parts` holds rank i's contribution; this rank's own is filled in by the caller, the
/// others on return. Sizes may differ. Ring: a rank sends size() - 1 messages, every part but the
/// one of its next neighbour.
void all_gather(const Communicator& comm, std::span<const Slice> parts);

/// Part i, summed over all ranks, ends at rank i, in parts[rank()]; the other parts are overwritten
/// with partial sums. Contiguous slices of whole elements; sizes may differ. Ring, size() - 1
/// messages, every part but the own; the order of additions is fixed. Needs a staging block as
/// large as the largest part, and allocates it unless it is passed in.
void reduce_scatter(const Communicator& comm, std::span<const Slice> parts, Element element,
                    Reduction reduction = Reduction::sum, Buffer staging = {});

/// Every rank ends with the reduction of all: reduce_scatter, then all_gather, of near-equal parts.
/// A staging block as large as the data will do; without one, what is needed is allocated.
void all_reduce(const Communicator& comm, const Slice& data, Element element,
                Reduction reduction = Reduction::sum, Buffer staging = {});

/// Copies the root's bytes to every rank, along a binomial tree.
void broadcast(const Communicator& comm, const Slice& slice, int root);

/// Returns when every rank of the group has called it. Dissemination: ceil(log2 size()) rounds.
void barrier(const Communicator& comm);

/// all_reduce of one host value, for agreement and statistics.
double all_reduce(const Communicator& comm, double value, Reduction reduction);
std::int64_t all_reduce(const Communicator& comm, std::int64_t value, Reduction reduction);

/// bytes[rank() * each ...] of every rank, on the host; what all_gather_values is made of.
/// ceil(log2 size()) messages.
void all_gather_bytes(const Communicator& comm, std::byte* bytes, std::int64_t each);

/// Every rank's value, in rank order.
template <typename Value>
std::vector<Value> all_gather_values(const Communicator& comm, const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> values(comm.size());
  values[comm.rank()] = value;
  all_gather_bytes(comm, reinterpret_cast<std::byte*>(values.data()), sizeof(Value));
  return values;
}

}  // namespace ringspan::comm
