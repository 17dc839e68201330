// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "comm/batch.hpp"
#include "comm/collectives.hpp"
#include "comm/devices/host.hpp"

namespace ringspan::comm {

void all_gather(const Communicator& comm, std::span<const Slice> parts) {
  const int rank = comm.rank(), size = comm.size();
  RINGSPAN_REQUIRE(std::ssize(parts) == size, "all_gather: ", parts.size(), " parts for ", size,
                   " ranks; there must be one per rank");
  for (const Slice& part : parts) require_inside(part);
  for (int hop = 0; hop + 1 < size; ++hop) {
    const int held = (rank + size - hop) % size;  // what arrived last; at first the own part
    const int next = (held + size - 1) % size;
    post_pair(comm, "all_gather", comm.next(), parts[held], comm.prev(), parts[next]).wait();
  }
}

// Bruck's algorithm, ceil(log2 size()) rounds: the values are few bytes, so latency is all there
// is. Block i of the staging buffer belongs to the i-th rank behind this one.
void all_gather_bytes(const Communicator& comm, std::byte* bytes, std::int64_t each) {
  RINGSPAN_REQUIRE(each >= 0, "all_gather_bytes: ", each, " bytes; a size is not negative");
  const std::int64_t rank = comm.rank(), size = comm.size();
  const Buffer host(bytes, size * each, {});  // only borrowed
  const Buffer staging = comm.device().allocate_values(size * each);
  const auto blocks = [each](const Buffer& buffer, std::int64_t first, std::int64_t count) {
    return slice(buffer, first * each, count * each);
  };

  // On the host, not queued: after a failure nothing may be left that uses what the caller lends.
  copy_slice(blocks(staging, 0, 1), blocks(host, rank, 1));
  for (std::int64_t held = 1; held < size; held *= 2) {
    const std::int64_t count = std::min(held, size - held);
    const int to = static_cast<int>((rank + size - held) % size);
    const int from = static_cast<int>((rank + held) % size);
    post_pair(comm, "all_gather_bytes", to, blocks(staging, 0, count), from,
              blocks(staging, held, count))
        .wait();
  }
  copy_slice(blocks(host, rank, size - rank), blocks(staging, 0, size - rank));
  copy_slice(blocks(host, 0, rank), blocks(staging, size - rank, rank));
  comm.device().synchronize(comm.deadline());
}

}  // namespace ringspan::comm
