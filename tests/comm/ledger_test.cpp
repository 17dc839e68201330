// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace ledger_test {

using test::failure_of;
using test::launch;

LaunchOptions options(int ranks, bool ledger) {
  return {.ranks = ranks, .deadline = 20, .debug = {.ledger = ledger}};
}

Request start_hop(const Communicator& comm, std::string_view name) {
  Send sends[] = {{comm.next(), whole(comm.device().allocate(8))}};
  Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
  return comm.post(name, sends, recvs);
}

/// Two groups of the same ranks; rank 1 uses them in the other order.
void reverse_order(const Communicator& comm) {
  const Communicator left = comm.split(0, comm.rank()), right = comm.split(0, comm.rank());
  const bool reversed = comm.rank() == 1;
  Request first = reversed ? start_hop(right, "right") : start_hop(left, "left");
  Request second = reversed ? start_hop(left, "left") : start_hop(right, "right");
  first.wait();
  second.wait();
}

TEST(LedgerTest, CatchesAReversedOrderAcrossGroupsAndNamesBothOperations) {
  const auto error = failure_of(options(2, true), reverse_order);
  ASSERT_TRUE(error);
  const std::string message = error->what();
  EXPECT_EQ(message.find("ledger: rank "), 0u) << message;
  EXPECT_NE(message.find("post in different orders"), std::string::npos) << message;
  EXPECT_NE(message.find("left"), std::string::npos) << message;
  // What the receiver does second, unless it is found out before that: it compares what has come
  // whenever it posts.
  const bool named = message.find("right") != std::string::npos;
  EXPECT_TRUE(named || message.find("no operation yet") != std::string::npos) << message;
  // Without the ledger some would not mind; NCCL has one order for all groups.
  EXPECT_EQ(failure_of(options(2, false), reverse_order).has_value(), test::on_gpus());
}

/// The exchanges of two blocks, and once more in the order of a backward pass that computes them
/// anew: the last first, but on rank 2.
void replay_blocks(const Communicator& comm, const Communicator (&groups)[2]) {
  const Buffer buffer = comm.device().allocate(2 * 8 * comm.size());
  const auto exchange = [&](int block) {
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    for (int peer = 0; peer < comm.size(); ++peer) {
      sends.push_back({peer, slice(buffer, 8 * peer, 8)});
      recvs.push_back({peer, slice(buffer, 8 * (comm.size() + peer), 8)});
    }
    groups[block].post(concat("block ", block), sends, recvs).wait();
  };
  for (const int block : {0, 1}) exchange(block);
  const int first = comm.rank() == 2 ? 0 : 1;
  for (const int block : {first, 1 - first}) exchange(block);
}

TEST(LedgerTest, CatchesARankThatReplaysTwoBlocksInTheOtherOrder) {
  for (const bool own_groups : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    LaunchOptions checked = options(4, true);
    if (own_groups) checked.deadline = 3;  // where halves never meet, all wait for each other
    const auto error = failure_of(checked, [&](const Communicator& comm) {
      const auto group = [&] { return own_groups ? comm.split(0, comm.rank()) : comm; };
      const Communicator groups[] = {group(), group()};
      replay_blocks(comm, groups);
    });
    ASSERT_TRUE(error);
    const std::string message = error->what();
    for (const char* name : {"block 0", "block 1", "rank 2"})
      EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15)) << message;
  }
}

TEST(LedgerTest, CatchesHalvesOfAMessageInDifferentOperations) {
  const auto body = [](const Communicator& comm) {
    const Buffer buffer = comm.device().allocate(8);
    if (comm.rank() == 0) comm.post("copy", {}, {}).wait();  // rank 1 does not take part
    Send sends[] = {{1, whole(buffer)}};
    Recv recvs[] = {{0, whole(buffer)}};
    if (comm.rank() == 0) comm.post("copy", sends, {}).wait();
    if (comm.rank() == 1) comm.post("copy", {}, recvs).wait();
  };
  const auto error = failure_of(options(2, true), body);
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(),
               "ledger: what rank 0 sends in operation 1, copy, rank 1 expects in operation 0, "
               "copy; it must be the same operation of their group");
  EXPECT_FALSE(failure_of(options(2, false), body));
}

TEST(LedgerTest, CatchesARankThatPostsFewerOperationsOfItsGroup) {
  const auto body = [](const Communicator& comm) {
    const Communicator lower = comm.split(comm.rank() < 2, 0);
    if (comm.rank() != 1) lower.post("nothing_to_send", {}, {}).wait();
  };
  const auto error = failure_of(options(3, true), body);
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(),
               "ledger: rank 1 posted 0 operations in a group in which rank 0 posted 1; every rank "
               "of a group posts every operation");
  EXPECT_EQ(error->where().peer, 1);
  EXPECT_FALSE(failure_of(options(3, false), body));
}

// Sizes are always compared; names without the ledger on threads, where they cost nothing.
TEST(LedgerTest, ComparesSizesAndNamesOfEveryMessage) {
  const auto mismatch = [](std::string_view other_name, std::int64_t other_bytes) {
    return failure_of(options(2, !test::on_threads()), [&](const Communicator& comm) {
      const bool odd = comm.rank() == 1;
      const Buffer buffer = comm.device().allocate(16);
      Send sends[] = {{comm.next(), slice(buffer, 0, odd ? other_bytes : 8)}};
      Recv recvs[] = {{comm.prev(), slice(buffer, 8, 8)}};
      comm.post(odd ? other_name : "swap", odd ? sends : std::span<Send>(),
                odd ? std::span<Recv>() : recvs)
          .wait();
    });
  };
  EXPECT_FALSE(mismatch("swap", 8));
  const auto size = mismatch("swap", 4), name = mismatch("swop", 8);
  ASSERT_TRUE(size && name);
  EXPECT_STREQ(size->what(),
               "rank 1 sends 4 bytes in operation 0, swap, where rank 0 expects 8 bytes in "
               "operation 0, swap");
  EXPECT_STREQ(name->what(),
               "rank 1 sends 8 bytes in operation 0, swop, where rank 0 expects 8 bytes in "
               "operation 0, swap");
  EXPECT_EQ(size->kind(), ErrorKind::peer_failed);
  EXPECT_EQ(size->where().peer, 1);
}

/// What a reduction and a turn of a ring leave on rank 0.
std::vector<float> results(const LaunchOptions& options) {
  std::vector<float> values(31);
  launch(options, [&](const Communicator& comm) {
    RingExchange ring(comm, 31 * 4);
    const Buffer own = ring.begin();
    for (int i = 0; i < 31; ++i) {
      const float value = std::sin(static_cast<float>(31 * comm.rank() + i));
      std::memcpy(own.data() + 4 * i, &value, 4);
    }
    const Slice sum = whole(comm.device().allocate(31 * 4));
    comm.device().copy(sum, whole(own));
    for (int hop = 0; hop + 1 < comm.size(); ++hop) {
      ring.start(31 * 4, 31 * 4);
      ring.finish();
      comm.device().reduce(sum, whole(ring.block()), Element::f32, Reduction::sum);
    }
    all_reduce(comm, sum, Element::f32);
    if (comm.rank() == 0) std::memcpy(values.data(), sum.data(), 31 * 4);
  });
  return values;
}

TEST(DelaysTest, ChangeNoResult) {
  for (const Hop hop : test::hops()) {
    const std::vector<float> plain = results({.ranks = 4, .hop = hop, .deadline = 20});
    for (std::uint64_t seed = 0; seed < 10; ++seed)
      EXPECT_EQ(results({.ranks = 4, .hop = hop, .deadline = 20, .debug = test::all_checks(seed)}),
                plain);
  }
}

}  // namespace ledger_test
}  // namespace ringspan::comm
