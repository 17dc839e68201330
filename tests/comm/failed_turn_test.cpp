// SPDX-License-Identifier: Apache-2.0
// A failure in the middle of a turn: whatever is called then reports its cause, never that the call
// is out of turn.
#include <functional>
#include <string>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/bidirectional_ring.hpp"
#include "comm/double_ring.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace failed_turn_test {

using Call = std::function<void()>;

std::string thrown_by(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

/// Returns when the world has failed.
void fail(const Communicator& comm) {
  if (comm.rank() == 0) comm.abort(Error(ErrorKind::aborted, "enough"));
  EXPECT_EQ(thrown_by([&] {
              for (;;) comm.device().poll();
            }),
            "enough");
}

/// `finish` may succeed once, for what had arrived before.
void expect_cause(const Communicator& comm, const std::vector<Call>& others, const Call& finish) {
  fail(comm);
  for (const Call& call : others) EXPECT_EQ(thrown_by(call), "enough");
  thrown_by(finish);
  EXPECT_EQ(thrown_by(finish), "enough");
  for (const Call& call : others) EXPECT_EQ(thrown_by(call), "enough");
}

void expect_aborted(const RankFunction& body) {
  for (const Hop hop : test::hops()) {
    const auto error = test::failure_of({.ranks = 4, .hop = hop, .deadline = 20}, body);
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), "enough");
  }
}

TEST(FailedTurnTest, IsReportedByARing) {
  expect_aborted([](const Communicator& comm) {
    RingExchange ring(comm, 8);
    ring.begin();
    ring.start(8, 8);
    expect_cause(comm, {[&] { ring.begin(); }, [&] { ring.start(8, 8); }}, [&] { ring.finish(); });
  });
}

TEST(FailedTurnTest, IsReportedByARingOfTwoDirections) {
  expect_aborted([](const Communicator& comm) {
    BidirectionalRing ring(comm, {8, 8});
    ring.begin();
    ring.start({8, 8}, {8, 8});
    expect_cause(comm,
                 {[&] { ring.begin(); },
                  [&] {
                    ring.start({8, 8}, {8, 8});
                  }},
                 [&] { ring.finish(); });
  });
}

TEST(FailedTurnTest, IsReportedByADoubleRing) {
  expect_aborted([](const Communicator& comm) {
    DoubleRing ring(comm, 2, {8, 8, 8, 8});
    ring.begin();
    ring.start();
    ring.finish();
    expect_cause(comm, {[&] { ring.begin(); }}, [&] { ring.finish(); });
  });
}

TEST(FailedTurnTest, IsReportedByAnAllToAll) {
  expect_aborted([](const Communicator& comm) {
    const std::vector<Slice> slices(comm.size(), whole(comm.device().allocate(8)));
    std::vector<Slice> received;
    for (int rank = 0; rank < comm.size(); ++rank)
      received.push_back(whole(comm.device().allocate(8)));
    AllToAll exchange(comm, slices, received);
    exchange.start();
    expect_cause(comm, {[&] { exchange.start(); }}, [&] { exchange.finish(); });
  });
}

}  // namespace failed_turn_test
}  // namespace ringspan::comm
