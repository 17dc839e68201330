// SPDX-License-Identifier: Apache-2.0
// Every fault in every operation of comm, a thousand times over: no hang, and the right rank named.
#include "tests/comm/failure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/bidirectional_ring.hpp"
#include "comm/collectives.hpp"
#include "comm/double_ring.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::comm {
namespace failure_test {

using test::Fault;

constexpr std::int64_t kBytes = 120;  // divides by 1 to 5 ranks into whole fp32 values

struct Case {
  std::string_view name;
  Hop hop;
  void (*run)(const Communicator&);
};

std::vector<Slice> parts_of(const Communicator& comm) {
  const Buffer buffer = comm.device().allocate(kBytes * comm.size());
  std::vector<Slice> parts;
  for (int rank = 0; rank < comm.size(); ++rank)
    parts.push_back(slice(buffer, rank * kBytes, kBytes));
  return parts;
}

void post_to_next(const Communicator& comm) {
  const Buffer out = comm.device().allocate(kBytes), in = comm.device().allocate(kBytes);
  Send sends[] = {{comm.next(), whole(out)}};
  Recv recvs[] = {{comm.prev(), whole(in)}};
  comm.post("post_to_next", sends, recvs).wait();
}

void turn_ring(const Communicator& comm) {
  RingExchange ring(comm, kBytes);
  ring.begin();
  for (int hop = 0; hop < comm.size(); ++hop) {
    ring.start(kBytes, kBytes);
    ring.finish();
  }
}

void turn_both_ways(const Communicator& comm) {
  BidirectionalRing ring(comm, {kBytes, kBytes});
  ring.begin();
  for (int hop = 0; hop < comm.size(); ++hop) {
    ring.start({kBytes, kBytes}, {kBytes, kBytes});
    ring.finish();
  }
}

void turn_double_ring(const Communicator& comm) {
  const int inner_ranks = comm.size() % 2 == 0 ? 2 : 1;
  DoubleRing ring(comm, inner_ranks, std::vector<std::int64_t>(comm.size(), kBytes));
  ring.begin();
  for (int step = 0; step < comm.size(); ++step) {
    ring.start();
    ring.finish();
  }
}

void use_halves(const Communicator& comm) {
  const Communicator half = comm.split(comm.rank() % 2, 0);
  post_to_next(half);
}

void exchange_all(const Communicator& comm) {
  const Buffer out = comm.device().allocate(kBytes), in = comm.device().allocate(kBytes);
  all_to_all(comm, whole(out), whole(in));
}

void reduce_all(const Communicator& comm) {
  const Buffer buffer = comm.device().allocate(kBytes);
  std::fill_n(buffer.data(), kBytes, std::byte{0});
  all_reduce(comm, whole(buffer), Element::f32);
}

void broadcast_from_0(const Communicator& comm) {
  broadcast(comm, whole(comm.device().allocate(kBytes)), 0);
}

const Case kCases[] = {
    {"post", Hop::copy, post_to_next},
    {"ring", Hop::copy, turn_ring},
    {"lending_ring", Hop::reference, turn_ring},
    {"bidirectional_ring", Hop::copy, turn_both_ways},
    {"double_ring", Hop::copy, turn_double_ring},
    {"split", Hop::copy, use_halves},
    {"all_to_all", Hop::copy, exchange_all},
    {"all_gather", Hop::copy, [](const Communicator& c) { all_gather(c, parts_of(c)); }},
    {"all_reduce", Hop::copy, reduce_all},
    {"broadcast", Hop::copy, broadcast_from_0},
    {"barrier", Hop::copy, [](const Communicator& comm) { barrier(comm); }},
    {"value", Hop::copy,
     [](const Communicator& comm) { all_reduce(comm, std::int64_t{1}, Reduction::sum); }},
};

class FailureTest : public testing::TestWithParam<std::tuple<Fault, Case>> {};

INSTANTIATE_TEST_SUITE_P(Faults, FailureTest,
                         testing::Combine(testing::ValuesIn(test::kFaults),
                                          testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return concat(name(std::get<0>(info.param)), "_in_",
                                         std::get<1>(info.param).name);
                         });

TEST_P(FailureTest, ReachesEveryRankAndNamesTheOneToBlame) {
  const auto& [fault, operation] = GetParam();
  test::expect_always_blamed(fault, operation.hop, operation.run);
}

}  // namespace failure_test
}  // namespace ringspan::comm
