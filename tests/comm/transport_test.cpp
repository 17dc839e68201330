// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

using test::has_pattern;
using test::launch;
using test::refusal;
using test::write_pattern;

class TransportTest : public testing::TestWithParam<int> {
 protected:
  void run(const RankFunction& body) const {
    launch({.ranks = GetParam(), .deadline = 20, .debug = test::all_checks(3)}, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, TransportTest, testing::Values(1, 2, 3, 4, 5, 7),
                         [](const auto& info) { return concat(info.param, "ranks"); });

/// Messages of one rank with all ranks, itself among them: `count(source, destination)` of
/// `bytes(source, destination, index)`, in buffers of their own.
struct Exchange {
  using Count = int (*)(int source, int destination);
  using Bytes = std::int64_t (*)(int source, int destination, int index);

  Exchange(const Communicator& group, Count count, Bytes bytes) : comm(group) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      for (int i = 0; i < count(comm.rank(), peer); ++i) {
        const Slice out = whole(comm.device().allocate(bytes(comm.rank(), peer, i)));
        write_pattern(out, comm.rank(), peer, i);
        sends.push_back({peer, out});
      }
      for (int i = 0; i < count(peer, comm.rank()); ++i)
        recvs.push_back({peer, whole(comm.device().allocate(bytes(peer, comm.rank(), i)))});
    }
    received = recvs;
  }

  Request post(std::string_view name) { return comm.post(name, sends, recvs); }

  void check() const {
    int index = 0, source = -1;
    for (const Recv& recv : received) {
      index = recv.from == source ? index + 1 : 0;
      source = recv.from;
      EXPECT_TRUE(has_pattern(recv.slice, source, comm.rank(), index));
    }
  }

  Communicator comm;
  std::vector<Send> sends;
  std::vector<Recv> recvs, received;
};

int one(int, int) { return 1; }
int several(int source, int destination) { return (source + 2 * destination) % 4; }
std::int64_t uneven(int source, int destination, int index) {
  return (5 * source + 3 * destination + 7 * index) % 4 * 10;  // zero bytes, too
}

TEST_P(TransportTest, ConnectsEveryPairOfRanksAndEachWithItself) {
  run([](const Communicator& comm) {
    Exchange exchange(comm, one, uneven);
    exchange.post("pairs").wait();
    exchange.check();
  });
}

TEST_P(TransportTest, KeepsTheOrderOfSeveralMessagesPerPair) {
  run([](const Communicator& comm) {
    Exchange exchange(comm, several, uneven);
    exchange.post("several").wait();
    exchange.check();
  });
}

TEST_P(TransportTest, KeepsBatchesInFlightApart) {
  run([](const Communicator& comm) {
    std::vector<Exchange> exchanges;
    for (const auto count : {one, several, one}) exchanges.emplace_back(comm, count, uneven);
    std::vector<Request> requests;
    for (Exchange& exchange : exchanges) requests.push_back(exchange.post("in_flight"));
    for (int i : {2, 0, 1}) requests[i].wait();
    for (const Exchange& exchange : exchanges) exchange.check();
  });
}

TEST_P(TransportTest, LetsGoOfBuffersOnceTheRequestIsDone) {
  run([](const Communicator& comm) {
    const Buffer out = comm.device().allocate(8), in = comm.device().allocate(8);
    for (int hop = 0; hop < 50; ++hop) {
      Send sends[] = {{comm.next(), whole(out)}};
      Recv recvs[] = {{comm.prev(), whole(in)}};
      comm.post("hop", sends, recvs).wait();
      EXPECT_TRUE(out.sole_owner() && in.sole_owner());
    }
  });
}

TEST_P(TransportTest, CutsRowsDifferentlyOnTheTwoSides) {
  run([](const Communicator& comm) {
    const Slice out{comm.device().allocate(100), 3, 4, 15, 20};  // 4 rows of 15 bytes
    const Slice in{comm.device().allocate(100), 1, 6, 10, 13};   // 6 rows of 10 bytes
    write_pattern(out, comm.rank(), comm.next(), 0);
    Send sends[] = {{comm.next(), out}};
    Recv recvs[] = {{comm.prev(), in}};
    comm.post("rows", sends, recvs).wait();
    EXPECT_TRUE(has_pattern(in, comm.prev(), comm.rank(), 0));
  });
}

TEST(TransportContractTest, TellsNextAndPreviousApartWhereTheyAreTheSameRank) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    ASSERT_EQ(comm.next(), comm.prev());
    const auto buffer = [&](std::int64_t bytes) { return whole(comm.device().allocate(bytes)); };
    const Slice to_next = buffer(8), to_prev = buffer(24), from_prev = buffer(8),
                from_next = buffer(24);
    write_pattern(to_next, comm.rank(), 0, 1);
    write_pattern(to_prev, comm.rank(), 0, 2);
    Send sends[] = {{comm.next(), to_next}, {comm.prev(), to_prev}};
    Recv recvs[] = {{comm.prev(), from_prev}, {comm.next(), from_next}};
    comm.post("both_ways", sends, recvs).wait();
    EXPECT_TRUE(has_pattern(from_prev, comm.prev(), 0, 1));
    EXPECT_TRUE(has_pattern(from_next, comm.next(), 0, 2));
  });
}

TEST(TransportContractTest, RunsStridedAndOffsetGroupsAtTheSameTime) {
  launch({.ranks = 4, .deadline = 20, .debug = test::all_checks(9)}, [](const Communicator& world) {
    const Communicator strided = world.split(world.rank() % 2, 0);             // {0,2} {1,3}
    const Communicator offset = world.split(world.rank() / 2, -world.rank());  // {1,0} {3,2}
    Exchange a(strided, one, uneven), b(offset, several, uneven), c(world, one, uneven);
    Request first = a.post("strided"), second = b.post("offset"), third = c.post("all");
    third.wait();
    second.wait();
    first.wait();
    for (const Exchange* exchange : {&a, &b, &c}) exchange->check();
  });
}

TEST(TransportContractTest, MakesGroupsOfAnyRanksInAnyOrder) {
  launch({.ranks = 4, .deadline = 20}, [](const Communicator& world) {
    const std::vector<std::vector<int>> groups = {{3, 2}, {1}, {0}};
    for (const std::vector<int>& ranks : groups) {
      const auto own = std::find(ranks.begin(), ranks.end(), world.rank());
      if (own == ranks.end()) continue;
      const auto group = world.transport()->group(ranks);
      EXPECT_EQ(group->rank(), own - ranks.begin());
      EXPECT_EQ(group->size(), std::ssize(ranks));
    }
    const bool upper = world.rank() >= 2;  // {3,2}, {0}, {1}
    Exchange exchange(world.split(upper ? 2 : world.rank(), -world.rank()), several, uneven);
    exchange.post("upper").wait();
    exchange.check();
  });
}

TEST(TransportContractTest, CountsTrafficOfOtherRanksOnly) {
  launch({.ranks = 4, .ranks_per_node = 2, .deadline = 20}, [](const Communicator& comm) {
    Exchange(comm, one, [](int, int, int) -> std::int64_t { return 10; }).post("count").wait();
    Exchange(comm, one, [](int, int, int) -> std::int64_t { return 0; }).post("empty").wait();
    const Traffic traffic = comm.traffic();
    EXPECT_EQ(traffic.bytes_sent, 30);
    EXPECT_EQ(traffic.inter_node_bytes_sent, 20);
    EXPECT_EQ(traffic.messages_sent, 6);
    EXPECT_EQ(traffic.bytes_copied, 30);
  });
}

TEST(TransportContractTest, DeliversWhileAKernelPolls) {
  test::not_on_gpus("what is received there is seen after the wait alone");
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    Exchange exchange(comm, one, [](int, int, int) -> std::int64_t { return 100; });
    Request request = exchange.post("polled");
    const Recv& message = exchange.received[comm.next()];
    const auto arrived = [&] { return has_pattern(message.slice, comm.next(), comm.rank(), 0); };
    for (const double end = comm.device().now() + 10; !arrived() && comm.device().now() < end;)
      comm.device().poll();
    EXPECT_TRUE(arrived());
    request.wait();
  });
}

TEST(TransportContractTest, RefusesBadArgumentsAndStaysUsable) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Buffer buffer = comm.device().allocate(16);
    const auto post = [&](Send send, Recv recv) {
      return refusal([&] { comm.post("bad", {&send, 1}, {&recv, 1}).wait(); });
    };
    const Send send{0, whole(buffer)};
    const Recv recv{0, whole(buffer)};
    EXPECT_EQ(post({2, whole(buffer)}, recv), "bad: rank 2 is not one of the group's 0 to 1");
    EXPECT_EQ(post(send, {-1, whole(buffer)}), "bad: rank -1 is not one of the group's 0 to 1");
    EXPECT_NE(post({0, slice(buffer, 8, 16)}, recv).find("do not fit"), std::string::npos);
    EXPECT_NE(post(send, {0, slice(buffer, -8, 16)}).find("negative"), std::string::npos);
    EXPECT_NE(post(send, {0, slice({}, 0, 16)}).find("do not fit"), std::string::npos);
    const std::vector<int> others = {1 - comm.rank()}, twice = {0, 1, 0}, outside = {0, 1, 2};
    EXPECT_NE(refusal([&] { comm.transport()->group(others); }), "");
    EXPECT_NE(refusal([&] { comm.transport()->group(twice); }), "");
    EXPECT_NE(refusal([&] { comm.transport()->group(outside); }), "");
    Exchange exchange(comm, one, uneven);
    exchange.post("good").wait();
    exchange.check();
  });
}

TEST(TransportContractTest, DeliversWhatWasSentBeforeItsSenderReturned) {
  launch({.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    const Slice byte = whole(comm.device().allocate(1));
    if (comm.rank() == 0) {
      write_pattern(byte, 0, 1, 0);
      Send sends[] = {{1, byte}};
      comm.post("last_words", sends, {}).wait();
    } else {
      Recv recvs[] = {{0, byte}};
      Request request = comm.post("last_words", {}, recvs);
      while (!request.test()) {
      }
      EXPECT_TRUE(has_pattern(byte, 0, 1, 0));
    }
  });
}

}  // namespace
}  // namespace ringspan::comm
