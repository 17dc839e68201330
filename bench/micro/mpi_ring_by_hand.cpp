// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bench/call_deadline.hpp"
#include "bench/micro/ring_by_hand.hpp"

namespace ringspan::bench {
namespace {

struct Ring {
  int next, prev;
  std::vector<std::byte> held, incoming;
  CallDeadline deadline;

  Ring(const comm::Communicator& comm, std::size_t bytes)
      : next(comm.next()),
        prev(comm.prev()),
        held(bytes, std::byte{1}),
        incoming(bytes, std::byte{2}),
        deadline(comm.deadline(), "MPI_Waitall") {}

  void hop() {
    const int bytes = static_cast<int>(held.size());
    MPI_Request requests[2];
    MPI_Irecv(incoming.data(), bytes, MPI_BYTE, prev, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(held.data(), bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[1]);
    deadline([&] { MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); });
    std::swap(held, incoming);
  }
};

}  // namespace

HopByHand mpi_ring_by_hand(const comm::Communicator& comm, std::int64_t bytes) {
  const auto ring = std::make_shared<Ring>(comm, static_cast<std::size_t>(bytes));
  return [ring] { ring->hop(); };
}

}  // namespace ringspan::bench
