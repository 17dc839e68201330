// SPDX-License-Identifier: Apache-2.0
// Every primitive with messages of every size at which some network changes its protocol.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/bidirectional_ring.hpp"
#include "comm/collectives.hpp"
#include "comm/double_ring.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace message_sizes_test {

/// Value `index` of what `source` has for `destination`: exact in sums over any number of ranks.
std::int64_t value(int source, int destination, std::int64_t index) {
  return index * 5 + source * 1000003 + destination * 10007;
}

/// `bytes` of the values, of which the last may be cut.
void write(const Slice& slice, int source, int destination) {
  for (std::int64_t at = 0; at < slice.bytes(); at += 8) {
    const std::int64_t v = value(source, destination, at / 8);
    std::memcpy(slice.data() + at, &v, std::min<std::int64_t>(8, slice.bytes() - at));
  }
}

testing::AssertionResult holds(const Slice& slice, int source, int destination) {
  for (std::int64_t at = 0; at < slice.bytes(); at += 8) {
    const std::int64_t v = value(source, destination, at / 8);
    if (std::memcmp(slice.data() + at, &v, std::min<std::int64_t>(8, slice.bytes() - at)) != 0) {
      return testing::AssertionFailure() << "wrong at byte " << at << " of " << slice.bytes()
                                         << " from rank " << source << " to rank " << destination;
    }
  }
  return testing::AssertionSuccess();
}

void expect_holds(const Slice& slice, int source, int destination) {
  EXPECT_TRUE(holds(slice, source, destination));
}

Slice allocate(const Communicator& comm, std::int64_t bytes) {
  return whole(comm.device().allocate(bytes));
}

void turn(const Communicator& comm, std::int64_t bytes, Direction direction) {
  RingExchange ring(comm, bytes, direction);
  write(whole(ring.begin()), comm.rank(), 0);
  const int step = direction == Direction::to_next ? comm.size() - 1 : 1;
  for (int hop = 0; hop < comm.size(); ++hop) {
    ring.start(bytes, bytes);
    ring.finish();
    expect_holds(whole(ring.block()), (comm.rank() + (hop + 1) * step) % comm.size(), 0);
  }
}

void turn_with_halves(const Communicator& comm, std::int64_t bytes) {
  const BidirectionalRing::Halves halves{bytes, bytes};
  BidirectionalRing ring(comm, halves);
  ring.begin();
  write(whole(ring.front()), comm.rank(), 0);
  write(whole(ring.back()), comm.rank(), 1);
  for (int hop = 1; hop <= comm.size(); ++hop) {
    ring.start(halves, halves);
    ring.finish();
    expect_holds(whole(ring.front()), (comm.rank() + comm.size() - hop) % comm.size(), 0);
    expect_holds(whole(ring.back()), (comm.rank() + hop) % comm.size(), 1);
  }
}

void turn_on_two_levels(const Communicator& comm, std::int64_t bytes) {
  const int inner = comm.size() == 4 ? 2 : 1;
  DoubleRing ring(comm, inner, std::vector<std::int64_t>(comm.size(), bytes));
  write(whole(ring.begin()), comm.rank(), 0);
  for (int step = 0; step < comm.size(); ++step) {
    expect_holds(whole(ring.block()), ring.owner(), 0);
    ring.start();
    ring.finish();
  }
}

void exchange(const Communicator& comm, std::int64_t bytes, AllToAllAlgorithm algorithm) {
  std::vector<Slice> send, recv;
  for (int peer = 0; peer < comm.size(); ++peer) {
    send.push_back(allocate(comm, bytes));
    recv.push_back(allocate(comm, bytes));
    write(send.back(), comm.rank(), peer);
  }
  all_to_all_v(comm, send, recv, algorithm);
  for (int peer = 0; peer < comm.size(); ++peer) expect_holds(recv[peer], peer, comm.rank());
}

std::vector<Slice> parts_of(const Communicator& comm, std::int64_t bytes) {
  std::vector<Slice> parts;
  for (int rank = 0; rank < comm.size(); ++rank) parts.push_back(allocate(comm, bytes));
  return parts;
}

void gather_all(const Communicator& comm, std::int64_t bytes) {
  const std::vector<Slice> parts = parts_of(comm, bytes);
  write(parts[comm.rank()], comm.rank(), 0);
  all_gather(comm, parts);
  for (int rank = 0; rank < comm.size(); ++rank) expect_holds(parts[rank], rank, 0);
}

/// Whole values only.
void expect_sum(const Communicator& comm, const Slice& part, int destination, std::int64_t first) {
  for (std::int64_t index = 0; index < part.bytes() / 8; ++index) {
    std::int64_t sum = 0, found;
    for (int rank = 0; rank < comm.size(); ++rank) sum += value(rank, destination, first + index);
    std::memcpy(&found, part.data() + index * 8, 8);
    if (found == sum) continue;
    ADD_FAILURE() << "element " << index << " of " << part.bytes() / 8 << " is wrong";
    return;
  }
}

void reduce_to_parts(const Communicator& comm, std::int64_t bytes) {
  const std::vector<Slice> parts = parts_of(comm, bytes / 8 * 8);
  for (int rank = 0; rank < comm.size(); ++rank) write(parts[rank], comm.rank(), rank);
  reduce_scatter(comm, parts, Element::i64);
  expect_sum(comm, parts[comm.rank()], comm.rank(), 0);
}

void reduce_all(const Communicator& comm, std::int64_t bytes) {
  const Slice data = allocate(comm, bytes / 8 * 8 * comm.size());  // messages of `bytes`
  write(data, comm.rank(), 0);
  all_reduce(comm, data, Element::i64);
  expect_sum(comm, data, 0, 0);
}

void broadcast_from_last(const Communicator& comm, std::int64_t bytes) {
  const Slice data = allocate(comm, bytes);
  const int root = comm.size() - 1;
  if (comm.rank() == root) write(data, root, 0);
  broadcast(comm, data, root);
  expect_holds(data, root, 0);
}

struct Primitive {
  std::string_view name;
  void (*run)(const Communicator&, std::int64_t bytes);
};

const Primitive kPrimitives[] = {
    {"ring_to_next", [](const auto& c, auto bytes) { turn(c, bytes, Direction::to_next); }},
    {"ring_to_prev", [](const auto& c, auto bytes) { turn(c, bytes, Direction::to_prev); }},
    {"bidirectional_ring", turn_with_halves},
    {"double_ring", turn_on_two_levels},
    {"all_to_all_direct",
     [](const auto& c, auto bytes) { exchange(c, bytes, AllToAllAlgorithm::direct); }},
    {"all_to_all_hierarchical",
     [](const auto& c, auto bytes) { exchange(c, bytes, AllToAllAlgorithm::hierarchical); }},
    {"all_gather", gather_all},
    {"reduce_scatter", reduce_to_parts},
    {"all_reduce", reduce_all},
    {"broadcast", broadcast_from_last}};

class MessageSizesTest : public testing::TestWithParam<std::tuple<Primitive, int>> {};

INSTANTIATE_TEST_SUITE_P(Primitives, MessageSizesTest,
                         testing::Combine(testing::ValuesIn(kPrimitives),
                                          testing::Values(2, 3, 4, 5)),
                         [](const auto& info) {
                           return concat(std::get<0>(info.param).name, "_", std::get<1>(info.param),
                                         "ranks");
                         });

TEST_P(MessageSizesTest, ArriveWhole) {
  const auto& [primitive, ranks] = GetParam();
  std::vector<std::int64_t> sizes = {0, 1, 4095, 4096, 65536, 1 << 20};
  int ranks_per_node = 2;
#ifndef RINGSPAN_SANITIZED
  if (ranks == 2) {
    sizes.push_back(64 << 20);  // memory is what limits the rest
    ranks_per_node = 1;         // else it is the same as direct
  }
#endif
  test::launch({.ranks = ranks, .ranks_per_node = ranks_per_node, .deadline = 30},
               [&, run = primitive.run](const Communicator& comm) {
                 for (const std::int64_t bytes : sizes) {
                   SCOPED_TRACE(concat(bytes, " bytes"));
                   run(comm, bytes);
                 }
               });
}

}  // namespace message_sizes_test
}  // namespace ringspan::comm
