// SPDX-License-Identifier: Apache-2.0
// Hops by reference, which need one address space.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::has_pattern;
using test::launch;
using test::write_pattern;

TEST(LendingTest, LendsABufferInsteadOfCopying) {
  launch({.ranks = 2, .hop = Hop::reference, .deadline = 20}, [](const Communicator& comm) {
    const Buffer lent = comm.device().allocate(64);
    write_pattern(whole(lent), comm.rank(), 0, 0);
    Buffer visiting;
    Send sends[] = {{comm.next(), whole(lent)}};
    Recv recvs[] = {{comm.prev(), slice({}, 0, 64), &visiting}};
    comm.post("lend", sends, recvs).wait();
    EXPECT_TRUE(has_pattern(whole(visiting), comm.prev(), 0, 0));
    EXPECT_FALSE(visiting.sole_owner());
    EXPECT_EQ(comm.traffic().bytes_copied, 0);
    EXPECT_EQ(comm.traffic().bytes_sent, 64);
    visiting = {};
    comm.reclaim(lent);
    EXPECT_TRUE(lent.sole_owner());
    write_pattern(whole(lent), comm.rank(), 0, 1);  // the peer has let go of it
  });
}

TEST(LendingTest, GivesABufferAwayWhenItsSenderKeepsNoHandle) {
  launch({.ranks = 2, .hop = Hop::reference, .deadline = 20}, [](const Communicator& comm) {
    Buffer held = comm.device().allocate(64);
    for (int hop = 0; hop < 4; ++hop) {
      ASSERT_TRUE(held.sole_owner());
      write_pattern(whole(held), comm.rank(), 0, hop);
      const std::byte* const data = held.data();
      Send sends[] = {{comm.next(), whole(std::move(held))}};
      Recv recvs[] = {{comm.prev(), slice({}, 0, 64), &held}};
      comm.post("give", sends, recvs).wait();
      EXPECT_NE(held.data(), data);
      EXPECT_TRUE(has_pattern(whole(held), comm.prev(), 0, hop));
    }
  });
}

TEST(LendingTest, CopiesWhatCannotBeLent) {
  launch({.ranks = 2, .hop = Hop::reference, .deadline = 20}, [](const Communicator& comm) {
    const Slice out = slice(comm.device().allocate(64), 8, 40);  // not at the beginning
    const Slice in = whole(comm.device().allocate(40));
    write_pattern(out, comm.rank(), 0, 0);
    Buffer rebound;
    Send sends[] = {{comm.next(), out}};
    Recv recvs[] = {{comm.prev(), in, &rebound}};
    comm.post("part", sends, recvs).wait();
    EXPECT_TRUE(has_pattern(in, comm.prev(), 0, 0));
    EXPECT_FALSE(rebound);
    EXPECT_EQ(comm.traffic().bytes_copied, 40);
  });
}

TEST(LendingTest, ComplainsWhenABufferIsExpectedThatCannotBeLent) {
  const auto error =
      failure_of({.ranks = 2, .hop = Hop::reference, .deadline = 20}, [](const Communicator& comm) {
        Buffer rebound;
        Send sends[] = {{comm.next(), slice(comm.device().allocate(16), 8, 8)}};
        Recv recvs[] = {{comm.prev(), slice({}, 0, 8), &rebound}};
        comm.post("lend", sends, recvs).wait();
      });
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("has none to fill"), std::string::npos);
}

// Others, who never had it, may go on for ever.
TEST(LendingTest, MissesABufferThatARankKeepsAndFallsSilent) {
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> missed{false};
  const auto until = Clock::now() + std::chrono::seconds(20);
  const auto error = failure_of(
      {.ranks = 4, .hop = Hop::reference, .deadline = 0.1}, [&](const Communicator& comm) {
        const Communicator pair = comm.split(comm.rank() / 2, comm.rank());
        RingExchange ring(pair, 8);
        ring.begin();
        ring.start(8, 8);
        ring.finish();
        if (comm.rank() == 0) {
          EXPECT_THROW(ring.begin(), Error);
          missed = true;
        } else if (comm.rank() == 1) {
          while (!missed && Clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } else {
          while (Clock::now() < until) barrier(pair);
        }
      });
  EXPECT_LT(Clock::now(), until);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  EXPECT_EQ(error->where().peer, 1);
  EXPECT_NE(std::string(error->what()).find("reclaim of a lent buffer of 8 bytes"),
            std::string::npos)
      << error->what();
}

}  // namespace
}  // namespace ringspan::comm
