// SPDX-License-Identifier: Apache-2.0
// One hop of a ring; of the double ring, whose hops differ, a whole turn, so that every rank has
// seen all of S.
#include <memory>
#include <vector>

#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"
#include "comm/bidirectional_ring.hpp"
#include "comm/double_ring.hpp"
#include "comm/nodes.hpp"

namespace ringspan::bench {
namespace {

Operation ring(const Setting& setting, comm::Direction direction) {
  const comm::Communicator& comm = setting.comm;
  const Labels labels(comm);
  const std::int64_t bytes = equal_part(setting, 1);
  const int rank = comm.rank();
  const int from = direction == comm::Direction::to_next ? comm.prev() : comm.next();
  const auto ring = std::make_shared<comm::RingExchange>(comm, bytes, direction);
  const auto hop = [ring, bytes] {
    ring->start(bytes, bytes);
    ring->finish();
  };
  return {bytes, bytes / kLabelBytes, hop, [=] {
            labels.write(comm::whole(ring->begin()), rank, 0);
            hop();
            return labels.wrong(comm::whole(ring->block()), from, 0);
          }};
}

}  // namespace

Operation ring_to_next(const Setting& setting) { return ring(setting, comm::Direction::to_next); }
Operation ring_to_prev(const Setting& setting) { return ring(setting, comm::Direction::to_prev); }

Operation bidirectional_ring(const Setting& setting) {
  using Halves = comm::BidirectionalRing::Halves;
  constexpr int kFront = 0, kBack = 1;
  const comm::Communicator& comm = setting.comm;
  const Labels labels(comm);
  const int rank = comm.rank(), next = comm.next(), prev = comm.prev();
  const std::int64_t half = equal_part(setting, 2);
  const Halves halves{half, half};
  const auto ring = std::make_shared<comm::BidirectionalRing>(comm, halves);
  const auto hop = [ring, halves] {
    ring->start(halves, halves);
    ring->finish();
  };
  return {2 * half, 2 * half / kLabelBytes, hop, [=] {
            ring->begin();
            labels.write(comm::whole(ring->front()), rank, kFront);
            labels.write(comm::whole(ring->back()), rank, kBack);
            hop();
            return labels.wrong(comm::whole(ring->front()), prev, kFront) +
                   labels.wrong(comm::whole(ring->back()), next, kBack);
          }};
}

Operation double_ring(const Setting& setting) {
  const comm::Communicator& comm = setting.comm;
  const Labels labels(comm);
  const int rank = comm.rank(), size = comm.size();
  const int inner = setting.inner_ring > 0 ? setting.inner_ring : comm::Nodes(comm).largest();
  const std::int64_t block = equal_part(setting, size);
  const auto ring = std::make_shared<comm::DoubleRing>(
      comm, inner, std::vector<std::int64_t>(static_cast<std::size_t>(size), block));
  const auto turn = [ring, size](const std::function<void()>& use) {
    for (int step = 0; step < size; ++step) {
      ring->start();
      use();
      ring->finish();
    }
  };
  return {size * block, block / kLabelBytes,
          [ring, turn] {
            ring->begin();
            turn([] {});
          },
          [=] {
            labels.write(comm::whole(ring->begin()), rank, 0);
            std::int64_t wrong = 0;
            turn([&] { wrong += labels.wrong(comm::whole(ring->block()), ring->owner(), 0); });
            return wrong;
          }};
}

}  // namespace ringspan::bench
