// SPDX-License-Identifier: Apache-2.0
#include "comm/batch.hpp"
#include "comm/collectives.hpp"

namespace ringspan::comm {

void broadcast(const Communicator& comm, const Slice& slice, int root) {
  const std::int64_t size = comm.size();
  RINGSPAN_REQUIRE(root >= 0 && root < size, "broadcast: root ", root,
                   " must be one of the ranks 0 to ", size - 1);
  require_inside(slice);
  const std::int64_t position = (comm.rank() + size - root) % size;  // the root is at 0
  const auto rank_at = [&](std::int64_t at) { return static_cast<int>((at + root) % size); };

  // The first `informed` positions have the bytes; each round doubles them. Every rank posts every
  // round, with or without a message.
  for (std::int64_t informed = 1; informed < size; informed *= 2) {
    Batch batch;
    if (position < informed && position + informed < size) {
      batch.send(rank_at(position + informed), slice);
    } else if (position >= informed && position < 2 * informed) {
      batch.receive(rank_at(position - informed), slice);
    }
    std::move(batch).post(comm, "broadcast").wait();
  }
}

}  // namespace ringspan::comm
