// SPDX-License-Identifier: Apache-2.0
#include "comm/ring_exchange.hpp"

#include <tuple>

#include "comm/collectives.hpp"
#include "comm/forwarding_transport.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace ring_exchange_test {

using test::has_pattern;
using test::launch;
using test::refusal;
using test::write_pattern;

class RingExchangeTest : public testing::TestWithParam<std::tuple<int, Hop, Direction>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  Hop hop() const { return std::get<1>(GetParam()); }
  Direction direction() const { return std::get<2>(GetParam()); }

  void run(const RankFunction& body, DebugOptions debug = test::all_checks(7)) const {
    launch({.ranks = ranks(), .hop = hop(), .deadline = 20, .debug = debug}, body);
  }
};

std::string test_name(const testing::TestParamInfo<RingExchangeTest::ParamType>& info) {
  const auto& [ranks, hop, direction] = info.param;
  return concat(ranks, "ranks_", hop == Hop::copy ? "copy" : "reference",
                direction == Direction::to_next ? "_to_next" : "_to_prev");
}

INSTANTIATE_TEST_SUITE_P(Ranks, RingExchangeTest,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 7),
                                          testing::Values(Hop::copy, Hop::reference),
                                          testing::Values(Direction::to_next, Direction::to_prev)),
                         test_name);

/// Whose block a rank holds after so many hops.
int owner_after(int hops, const Communicator& comm, Direction direction) {
  const int step = direction == Direction::to_next ? comm.size() - 1 : 1;
  return (comm.rank() + hops * step) % comm.size();
}

/// One turn of the ring: every block visits every rank and is read while it moves on.
void turn(RingExchange& ring, const Communicator& comm, Direction direction, int round,
          const std::function<std::int64_t(int owner)>& bytes) {
  write_pattern(slice(ring.begin(), 0, bytes(comm.rank())), comm.rank(), 0, round);
  for (int hop = 0; hop < comm.size(); ++hop) {
    const int owner = owner_after(hop, comm, direction);
    const int coming = owner_after(hop + 1, comm, direction);
    ring.start(bytes(owner), bytes(coming));
    EXPECT_TRUE(has_pattern(slice(ring.block(), 0, bytes(owner)), owner, 0, round));
    ring.finish();
  }
  EXPECT_TRUE(has_pattern(slice(ring.block(), 0, bytes(comm.rank())), comm.rank(), 0, round));
}

TEST_P(RingExchangeTest, ReturnsHomeAfterSizeHops) {
  run([&](const Communicator& comm) {
    RingExchange ring(comm, 1000, direction());
    for (int round = 0; round < 3; ++round) {
      turn(ring, comm, direction(), round, [](int) { return 1000; });
    }
  });
}

TEST_P(RingExchangeTest, CarriesBlocksOfUnevenSizesAndEmptyOnes) {
  run([&](const Communicator& comm) {
    const auto bytes = [](int owner) { return owner % 3 == 1 ? 0 : 100 * owner + 1; };
    RingExchange ring(comm, 700, direction());
    for (int round = 0; round < 3; ++round) turn(ring, comm, direction(), round, bytes);
  });
}

TEST_P(RingExchangeTest, RunsInOppositeDirectionsAtOnce) {
  run([&](const Communicator& comm) {
    const int size = comm.size(), rank = comm.rank();
    RingExchange ahead(comm, 64, Direction::to_next), back(comm, 64, Direction::to_prev);
    write_pattern(whole(ahead.begin()), rank, 1, 0);
    write_pattern(whole(back.begin()), rank, 2, 0);
    for (int hop = 0; hop < size; ++hop) {
      ahead.start(64, 64);
      back.start(64, 64);
      EXPECT_TRUE(has_pattern(whole(ahead.block()), (rank + size - hop) % size, 1, 0));
      EXPECT_TRUE(has_pattern(whole(back.block()), (rank + hop) % size, 2, 0));
      back.finish();
      ahead.finish();
    }
  });
}

TEST_P(RingExchangeTest, RunsInStridedGroups) {
  run([&](const Communicator& comm) {
    const Communicator group = comm.split(comm.rank() % 2, -comm.rank());
    RingExchange ring(group, 128, direction());
    for (int round = 0; round < 2; ++round) {
      turn(ring, group, direction(), round, [](int) { return 128; });
    }
  });
}

TEST_P(RingExchangeTest, SendsOneMessagePerHopAndCopiesNothingByReference) {
  run([&](const Communicator& comm) {
    RingExchange ring(comm, 4096, direction());
    const Traffic before = comm.traffic();
    turn(ring, comm, direction(), 0, [](int) { return 4096; });
    const Traffic after = comm.traffic();
    const std::int64_t hops = comm.size() > 1 ? comm.size() : 0;
    EXPECT_EQ(after.messages_sent - before.messages_sent, hops);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, hops * 4096);
    EXPECT_EQ(after.bytes_copied - before.bytes_copied, hop() == Hop::copy ? hops * 4096 : 0);
  });
}

TEST_P(RingExchangeTest, NeedsTwoBlocksWhereHopsCopyAndOneWhereTheyLend) {
  run([&](const Communicator& comm) {
    barrier(comm);
    const std::int64_t before = comm.device().memory().current;
    comm.device().reset_peak();
    RingExchange ring(comm, 5000, direction());
    const std::int64_t blocks = hop() == Hop::copy ? 2 : 1;
    for (int round = 0; round < 2; ++round) {
      turn(ring, comm, direction(), round, [](int) { return 5000; });
    }
    EXPECT_EQ(comm.device().memory().current - before, blocks * 5000);
    EXPECT_EQ(comm.device().memory().peak - before, blocks * 5000);
  });
}

TEST_P(RingExchangeTest, BeginsWithABlockThatIsElsewhere) {
  run([&](const Communicator& comm) {
    RingExchange ring(comm, 100, direction());
    const Buffer elsewhere = comm.device().allocate(100);
    write_pattern(whole(elsewhere), comm.rank(), 0, 0);
    ring.begin(elsewhere);
    for (int hop = 0; hop < comm.size(); ++hop) {
      ring.start(100, 100);
      EXPECT_TRUE(has_pattern(whole(ring.block()), owner_after(hop, comm, direction()), 0, 0));
      ring.finish();
    }
    EXPECT_TRUE(has_pattern(whole(ring.block()), comm.rank(), 0, 0));
    EXPECT_TRUE(has_pattern(whole(elsewhere), comm.rank(), 0, 0));
    EXPECT_NE(refusal([&] { ring.begin(comm.device().allocate(101)); }), "");
    ring.begin();
    comm.reclaim(elsewhere);  // only this rank's handle is left
    turn(ring, comm, direction(), 1, [](int) { return 100; });
  });
}

TEST_P(RingExchangeTest, RefusesMisuseAndGoesOn) {
  run([&](const Communicator& comm) {
    EXPECT_NE(refusal([&] { RingExchange ring(comm, -1); }), "");
    RingExchange ring(comm, 10, direction());
    EXPECT_NE(refusal([&] { ring.finish(); }), "");
    EXPECT_NE(refusal([&] { ring.start(11, 10); }), "");
    EXPECT_NE(refusal([&] { ring.start(10, 11); }), "");
    EXPECT_NE(refusal([&] { ring.start(-1, 10); }), "");
    write_pattern(whole(ring.begin()), comm.rank(), 0, 0);
    ring.start(10, 10);
    EXPECT_NE(refusal([&] { ring.start(10, 10); }), "");
    EXPECT_NE(refusal([&] { ring.begin(); }), "");
    ring.finish();
    EXPECT_TRUE(has_pattern(whole(ring.block()), owner_after(1, comm, direction()), 0, 0));
  });
}

/// Lets every operation happen, without its messages.
class Dropping final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Request post(std::string_view operation, std::span<Send>, std::span<Recv>) override {
    return inner().post(operation, {}, {});
  }
  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    return std::make_shared<Dropping>(inner().group(ranks));
  }
};

TEST_P(RingExchangeTest, HoldsAValidBlockUnderATransportThatDropsMessages) {
  run([&](const Communicator& comm) {
    const Communicator silent = comm.through(std::make_shared<Dropping>(comm.transport()));
    RingExchange ring(silent, 256, direction());
    for (int round = 0; round < 2; ++round) {
      write_pattern(whole(ring.begin()), comm.rank(), 0, round);
      for (int hop = 0; hop < comm.size(); ++hop) {
        ring.start(256, 256);
        ring.finish();
        EXPECT_EQ(ring.block().bytes(), 256);
        EXPECT_NE(ring.block().data(), nullptr);
      }
    }
    EXPECT_EQ(comm.traffic().messages_sent, 0);
  });
}

/// A second turn rewrites the own block, which another rank may still be reading.
TEST_P(RingExchangeTest, BeginWaitsForSlowReaders) {
  run(
      [&](const Communicator& comm) {
        RingExchange ring(comm, 512, direction());
        const bool slow = comm.rank() == comm.size() - 1;
        for (int round = 0; round < 5; ++round) {
          write_pattern(whole(ring.begin()), comm.rank(), 0, round);
          for (int hop = 1; hop < comm.size(); ++hop) {
            ring.start(512, 512);
            ring.finish();
          }
          const int owner = owner_after(comm.size() - 1, comm, direction());
          const double until = comm.device().now() + (slow ? 2e-3 : 0);
          do {
            EXPECT_TRUE(has_pattern(whole(ring.block()), owner, 0, round));
          } while (comm.device().now() < until);
        }
      },
      {.poison = true});
}

}  // namespace ring_exchange_test
}  // namespace ringspan::comm
