// SPDX-License-Identifier: Apache-2.0
#include "comm/request.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace request_test {

using test::failure_of;
using test::launch;

/// Eight bytes to the next rank and from the previous one.
Request start_hop(const Communicator& comm) {
  Send sends[] = {{comm.next(), whole(comm.device().allocate(8))}};
  Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
  return comm.post("hop", sends, recvs);
}

/// Eight bytes that the previous rank does not send.
Request wait_in_vain(const Communicator& comm) {
  Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
  return comm.post("hop", {}, recvs);
}

TEST(RequestTest, IsCompleteWhenEmpty) {
  Request none;
  EXPECT_TRUE(none.test());
  none.wait();
}

TEST(RequestTest, TestsTrueInTheEndAndStaysSo) {
  launch({.ranks = 3, .deadline = 20}, [](const Communicator& comm) {
    Request hop = start_hop(comm);
    while (!hop.test()) {
    }
    EXPECT_TRUE(hop.test());
    hop.wait();
  });
}

TEST(RequestTest, MovesWithItsMessages) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    Request first = start_hop(comm);
    std::vector<Request> kept;
    kept.push_back(std::move(first));
    EXPECT_TRUE(first.test());  // NOLINT(bugprone-use-after-move): moved from means complete
    kept.front().wait();
  });
}

TEST(RequestTest, PoisonsTheWorldWhenDroppedAndReturnsAtOnce) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 1) {
      wait_in_vain(comm).wait();
      ADD_FAILURE() << "nothing was sent";
    }
    const auto start = std::chrono::steady_clock::now();
    { const Request dropped = wait_in_vain(comm); }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::peer_failed);
  EXPECT_STREQ(error->what(), "rank 0 dropped the pending request of operation 0, hop");
  EXPECT_EQ(error->where().peer, 0);
}

TEST(RequestTest, PoisonsTheWorldWhenOverwritten) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    Request hop = wait_in_vain(comm);
    if (comm.rank() == 1) hop = Request();
    hop.wait();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 1);
}

// Long ones, which no network takes before they are received.
constexpr std::int64_t kLong = 8 << 20;  // bytes

Request start_send(const Communicator& comm, const Buffer& from) {
  Send sends[] = {{1, whole(from)}};
  return comm.post("send", sends, {});
}

TEST(RequestTest, OfThreeSendsWhoseHandlesAreOverwrittenTheFirstIsReported) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 1) {
      for (;;) comm.device().poll();  // until the failure is heard of
    }
    const Buffer buffer = comm.device().allocate(kLong);
    Request send = start_send(comm, buffer);
    for (int i = 0; i < 2; ++i) send = start_send(comm, buffer);
    send.wait();
    ADD_FAILURE() << "waited for the last of three";
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().peer, 0);
  EXPECT_STREQ(error->what(), "rank 0 dropped the pending request of operation 0, send");
}

TEST(RequestTest, ThreeSendsArriveWhoeverIsWaitedForFirst) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    std::vector<Request> requests;
    std::vector<Slice> slices;
    for (int i = 0; i < 3; ++i) {
      slices.push_back(whole(comm.device().allocate(kLong)));
      if (comm.rank() == 0) {
        test::write_pattern(slices.back(), 0, 1, i);
        requests.push_back(start_send(comm, slices.back().buffer));
      } else {
        Recv recvs[] = {{0, slices.back()}};
        requests.push_back(comm.post("send", {}, recvs));
      }
    }
    for (const int i : {2, 0, 1}) requests[i].wait();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(test::has_pattern(slices[i], 0, 1, i));
  });
}

TEST(RequestTest, LetsTheExceptionThatDroppedItBeTheCause) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    Request hop = wait_in_vain(comm);
    if (comm.rank() == 1) throw std::runtime_error("boom");
    hop.wait();
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1: boom");
}

TEST(RequestTest, PoisonsTheWorldAtTheNextCallWhenTheExceptionIsSwallowed) {
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    if (comm.rank() == 0) {
      wait_in_vain(comm).wait();
      return;
    }
    try {
      Request hop = wait_in_vain(comm);
      throw std::runtime_error("boom");
    } catch (const std::runtime_error&) {
    }
    comm.device().poll();
    ADD_FAILURE() << "poll after a dropped request";
  });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1 dropped the pending request of operation 0, hop");
}

TEST(RequestTest, MayOutliveTheLaunch) {
  Request kept;
  launch({.ranks = 1, .deadline = 20}, [&](const Communicator& comm) { kept = start_hop(comm); });
}

TEST(RequestTest, ReceivesNothingMoreIntoWhatWasDropped) {
  test::not_on_gpus("what is queued there goes on until the failure is seen");
  std::vector<std::byte> memory(8, std::byte{1}), when_dropped = memory;
  const auto error = failure_of({.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
    if (comm.rank() == 1) start_hop(comm).wait();
    try {
      Recv recvs[] = {{1, whole(Buffer(memory.data(), 8, {}))}};
      const Request hop = comm.post("hop", {}, recvs);
      throw std::runtime_error("boom");
    } catch (const std::runtime_error&) {
      when_dropped = memory;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the message has arrived
    }
    comm.device().poll();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(memory, when_dropped);
}

// Under the sanitizers: nobody reads what a rank frees or overwrites after its wait has failed.
TEST(RequestTest, GivesBackWhatWasSentWhenAWaitFails) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const auto error = failure_of({.ranks = 2, .deadline = 20}, [&](const Communicator& comm) {
      std::vector<std::byte> memory(1 << 16);
      const Buffer borrowed =
          test::transport() == "threads"  // others may write until the launch ends
              ? Buffer(memory.data(), std::ssize(memory), {})
              : comm.device().allocate(std::ssize(memory));
      if (comm.rank() == 1) {
        Recv recvs[] = {{0, whole(borrowed)}};
        Request request = comm.post("send", {}, recvs);
        std::this_thread::sleep_for(std::chrono::microseconds(repetition));
        comm.abort(Error(ErrorKind::aborted, "enough"));
        request.wait();  // may or may not find the message
      } else {
        Send sends[] = {{1, whole(borrowed)}};
        Request request = comm.post("send", sends, {});
        try {
          request.wait();
        } catch (const Error&) {
          std::fill_n(borrowed.data(), borrowed.bytes(), std::byte{1});
        }
      }
    });
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), "enough");
  }
}

}  // namespace request_test
}  // namespace ringspan::comm
