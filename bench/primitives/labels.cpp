// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/labels.hpp"

#include <algorithm>

namespace ringspan::bench {
namespace {

constexpr std::int64_t kPeriod = 61;       // prime, so that no power of two hides a shift
constexpr std::int64_t kMostRanks = 4096;  // apart by more than sources reach
constexpr std::int64_t kPartBytes = 1 << 20;

std::int64_t base_of(int source, int destination) { return source + kMostRanks * destination; }

/// Calls `use` with each part of the slice and with memory of the host for its elements.
void for_parts(const comm::Communicator& comm, const comm::Slice& all,
               const std::function<void(const comm::Slice& part, const comm::Slice& host)>& use) {
  const comm::Buffer host =
      comm.device().allocate_values(std::min(all.bytes(), kPartBytes) / kLabelBytes * kLabelBytes);
  for (std::int64_t done = 0; done < all.bytes(); done += host.bytes()) {
    const std::int64_t bytes = std::min(host.bytes(), all.bytes() - done);
    use(comm::slice(all.buffer, all.offset + done, bytes), comm::slice(host, 0, bytes));
  }
}

std::span<float> elements(const comm::Slice& host) {
  return {reinterpret_cast<float*>(host.data()),
          static_cast<std::size_t>(host.bytes() / kLabelBytes)};
}

}  // namespace

void Labels::write_parts(const comm::Slice& slice, const Use& use) const {
  std::int64_t first = 0;
  for_parts(comm_, slice, [&](const comm::Slice& part, const comm::Slice& host) {
    use(elements(host), first);
    first += host.bytes() / kLabelBytes;
    comm_.device().copy(part, host);
    comm_.device().synchronize(comm_.deadline());  // the host's memory is written again
  });
}

void Labels::read_parts(const comm::Slice& slice, const Use& use) const {
  std::int64_t first = 0;
  for_parts(comm_, slice, [&](const comm::Slice& part, const comm::Slice& host) {
    comm_.device().copy(host, part);
    comm_.device().synchronize(comm_.deadline());
    use(elements(host), first);
    first += host.bytes() / kLabelBytes;
  });
}

/// Elements i that differ from base + factor * ((first + i) % kPeriod).
std::int64_t Labels::different(const comm::Slice& slice, std::int64_t base, std::int64_t factor,
                               std::int64_t first) const {
  std::int64_t wrong = 0;
  read_parts(slice, [&](std::span<float> part, std::int64_t at) {
    for (const float element : part) {
      wrong += element != static_cast<float>(base + factor * ((first + at++) % kPeriod));
    }
  });
  return wrong;
}

void Labels::write(const comm::Slice& slice, int source, int destination,
                   std::int64_t first) const {
  write_parts(slice, [&](std::span<float> part, std::int64_t at) {
    for (float& element : part) {
      element = static_cast<float>(base_of(source, destination) + (first + at++) % kPeriod);
    }
  });
}

void Labels::clear(const comm::Slice& slice) const {
  write_parts(slice, [](std::span<float> part, std::int64_t) { std::ranges::fill(part, -1.0f); });
}

std::int64_t Labels::wrong(const comm::Slice& slice, int source, int destination) const {
  return different(slice, base_of(source, destination), 1, 0);
}

std::int64_t Labels::wrong_sums(const comm::Slice& slice, int ranks, std::int64_t first) const {
  const std::int64_t sources = std::int64_t{ranks} * (ranks - 1) / 2;
  return different(slice, sources, ranks, first);
}

}  // namespace ringspan::bench
