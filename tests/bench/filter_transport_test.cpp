// SPDX-License-Identifier: Apache-2.0
#include "bench/run/filter_transport.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "bench/run/measure.hpp"
#include "bench/run/rank_run.hpp"
#include "bench/run/switched_kernels.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::bench {
namespace {

using comm::Communicator;
using comm::Hop;

/// One rank's filtered view of its world.
struct Filtered {
  explicit Filtered(const Communicator& world_)
      : world(world_), comm(world.through(make_filter_transport(world.transport(), mode, clock))) {}

  RunMode mode;
  StepClock clock;
  Communicator world, comm;
};

void on_ranks(int ranks, Hop hop, const std::function<void(Filtered&)>& body) {
  comm::LaunchOptions options;
  options.ranks = ranks;
  options.hop = hop;
  options.deadline = 5;
  comm::launch("threads", options, [&](const Communicator& world) {
    Filtered filtered(world);
    body(filtered);
  });
}

/// Every rank's number goes once around the ring; the sum of what passed by.
std::int64_t ring_sum(comm::RingExchange& ring, int size, std::int64_t own) {
  std::memcpy(ring.begin().data(), &own, sizeof own);
  std::int64_t sum = own;
  for (int step = 1; step < size; ++step) {
    ring.start(sizeof own, sizeof own);
    ring.finish();
    std::int64_t passing = 0;
    std::memcpy(&passing, ring.block().data(), sizeof passing);
    sum += passing;
  }
  return sum;
}

class FilterTransportTest : public testing::TestWithParam<Hop> {};
INSTANTIATE_TEST_SUITE_P(Hops, FilterTransportTest, testing::Values(Hop::copy, Hop::reference),
                         [](const testing::TestParamInfo<Hop>& hop) {
                           return hop.param == Hop::copy ? "copy" : "reference";
                         });

TEST_P(FilterTransportTest, MessagesAreWholeEmptyOrLeftOut) {
  on_ranks(3, GetParam(), [](Filtered& filtered) {
    comm::RingExchange ring(filtered.comm, 8);
    const std::int64_t own = 1 << (4 * filtered.comm.rank());
    const auto sent_in = [&](const RunMode& mode) {
      filtered.mode = mode;
      const comm::Traffic before = filtered.world.traffic();
      const std::int64_t sum = ring_sum(ring, 3, own);
      if (mode.messages == Messages::full) {
        EXPECT_EQ(sum, 0x111);
      }
      const comm::Traffic after = filtered.world.traffic();
      return std::pair(after.messages_sent - before.messages_sent,
                       after.bytes_sent - before.bytes_sent);
    };
    for (int repeat = 0; repeat < 3; ++repeat) {  // no mode leaves a trace in the next
      EXPECT_EQ(sent_in(kOverlapped), std::pair(std::int64_t{2}, std::int64_t{16}));
      EXPECT_EQ(sent_in(kCompute), std::pair(std::int64_t{0}, std::int64_t{0}));
      EXPECT_EQ(sent_in(kSynchronised), std::pair(std::int64_t{2}, std::int64_t{0}));
      EXPECT_EQ(sent_in(kCommunication), std::pair(std::int64_t{2}, std::int64_t{16}));
    }
  });
}

TEST_P(FilterTransportTest, GroupsAreFilteredToo) {
  on_ranks(4, GetParam(), [](Filtered& filtered) {
    const Communicator group = filtered.comm.split(filtered.comm.rank() % 2, 0);
    comm::RingExchange ring(group, 8);
    filtered.mode = kCompute;
    const std::int64_t before = filtered.world.traffic().messages_sent;
    ring_sum(ring, 2, 1);
    EXPECT_EQ(filtered.world.traffic().messages_sent, before);
    filtered.mode = kOverlapped;
    EXPECT_EQ(ring_sum(ring, 2, 1 << filtered.comm.rank()), filtered.comm.rank() % 2 ? 10 : 5);
  });
}

TEST_P(FilterTransportTest, EmptyMessagesMakeTheOthersWait) {
  on_ranks(2, GetParam(), [](Filtered& filtered) {
    comm::RingExchange ring(filtered.comm, 8);
    const auto waited_in = [&](const RunMode& mode) {
      comm::barrier(filtered.world);
      filtered.mode = mode;
      filtered.clock.reset();
      if (filtered.comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ring_sum(ring, 2, 1);
      return filtered.clock.steps().at(0).message_seconds;
    };
    const double alone = waited_in(kCompute), together = waited_in(kSynchronised);
    if (filtered.comm.rank() == 0) {
      EXPECT_LT(alone, 0.02);
      EXPECT_GT(together, 0.03);
    }
  });
}

TEST(SwitchedKernelsTest, NullOrFullAsTheModeSays) {
  on_ranks(1, Hop::copy, [](Filtered& filtered) {
    comm::Device& device = filtered.comm.device();
    const auto kernels = make_switched_kernels(attention::make_kernels("reference", device),
                                               attention::make_kernels("null", device), device,
                                               filtered.mode, filtered.clock);
    const auto tensor = [&] {
      return attention::Tensor(device, attention::DType::f32, 1, 1, 1, 1);
    };
    attention::Tensor q = tensor(), k = tensor(), v = tensor(), out = tensor(), max = tensor(),
                      sum = tensor();
    const attention::Tile tile{{0, 1, 1}, {0, 1, 1}, 0, 0};
    const auto output = [&](const RunMode& mode) {
      filtered.mode = mode;
      for (const attention::Tensor* one : {&q, &k, &v}) kernels->fill(*one, 1);
      for (const attention::Tensor* zero : {&out, &sum}) kernels->fill(*zero, 0);
      kernels->fill(max, -std::numeric_limits<double>::infinity());
      kernels->prepare({1, 1, 1, 1, 1, attention::DType::f32});
      kernels->forward({q, k, v, {&tile, 1}, {}}, {out, max, sum});
      return *static_cast<const float*>(out.view().data);
    };
    EXPECT_EQ(output(kOverlapped), 1);
    EXPECT_EQ(output(kCommunication), 0);
    EXPECT_EQ(output(kSynchronised), 1);
    EXPECT_GT(filtered.clock.kernel_seconds(), 0);
  });
}

/// Every schedule, hop and pass survives all four modes, still computes the right thing after, and
/// does no more and no fewer steps in one mode than in another.
TEST(RankRunTest, AllSchedulesRunInAllModes) {
  for (const auto& schedule : attention::schedules()) {
    for (const char* hop : {"copy", "reference"}) {
      SCOPED_TRACE(std::string(schedule.name) + " " + hop);
      Point point;
      point.schedule = schedule.name;
      if (schedule.name == "halo") point.mask = "window:20:5";
      point.layout = schedule.takes_layout ? "zigzag" : "";
      point.hop = hop;
      point.pass = "both";
      point.kernel = "reference";
      point.ranks = 3;
      point.ulysses_degree = 3;
      point.sequence_length = 40;
      point.heads = point.kv_heads = 3;
      point.head_dim = point.value_dim = 4;
      on_ranks(3, std::string(hop) == "copy" ? Hop::copy : Hop::reference, [&](Filtered& filtered) {
        RankRun run(filtered.world, point, {});
        std::size_t steps = 0;
        for (int i = 0; i < 2; ++i) {
          for (const RunMode& mode : {kOverlapped, kCompute, kSynchronised, kCommunication}) {
            run.run(mode);
            if (steps == 0) steps = run.clock().steps().size();
            EXPECT_EQ(run.clock().steps().size(), steps);
            EXPECT_EQ(run.sent().messages_sent == 0, mode.messages == Messages::none);
            EXPECT_EQ(run.sent().bytes_sent == 0, mode.messages != Messages::full);
          }
        }
        run.run(kOverlapped);
        const Deviation deviation = run.check();
        EXPECT_FALSE(deviation.wrong()) << deviation.text();
        const attention::Traffic due = run.closed_form();
        EXPECT_EQ(run.sent().bytes_sent, due.bytes);
        EXPECT_EQ(run.sent().messages_sent, due.messages);
      });
    }
  }
}

}  // namespace
}  // namespace ringspan::bench
