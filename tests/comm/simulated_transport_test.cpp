// SPDX-License-Identifier: Apache-2.0
// What a rank sees of a simulated world: places, groups, values that really travel, memory without
// storage, and the same traffic as on threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/batch.hpp"
#include "comm/collectives.hpp"
#include "comm/double_ring.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/simulated_cluster.hpp"

namespace ringspan::comm {
namespace simulated_transport_test {

const Cluster& cluster() {
  static const Cluster kCluster = test::plain_cluster(4);
  return kCluster;
}

void simulate(int ranks, const RankFunction& body, LaunchOptions options = {}) {
  test::simulate(cluster(), ranks, body, std::move(options));
}

TEST(SimulatedTransportTest, PlacesFollowTheCluster) {
  simulate(20, [](const Communicator& comm) {
    EXPECT_EQ(comm.place(19).node, 2);
    EXPECT_EQ(comm.place(19).rail, 3);
    EXPECT_EQ(comm.device().name(), "simulated");
  });
  simulate(8, [](const Communicator& comm) { EXPECT_EQ(comm.place(7).node, 3); },
           {.ranks_per_node = 2});
}

TEST(SimulatedTransportTest, ValuesReallyTravel) {
  for (const int ranks : {1, 2, 3, 7, 32}) {
    simulate(
        ranks,
        [](const Communicator& comm) {
          struct Large {
            std::int64_t number, rest[99];
          };
          const auto all = all_gather_values(comm, Large{comm.rank() * 10, {}});
          for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(all[rank].number, rank * 10);
          EXPECT_EQ(all_reduce(comm, std::int64_t{comm.rank()}, Reduction::max), comm.size() - 1);

          const Communicator odd = comm.split(comm.rank() % 2, -comm.rank());
          EXPECT_EQ(odd.rank(), (comm.size() - 1 - comm.rank()) / 2);
          EXPECT_EQ(all_reduce(odd, std::int64_t{1}, Reduction::sum), odd.size());

          const Buffer sent = comm.device().allocate(600), received = comm.device().allocate(600);
          test::write_pattern(whole(sent), comm.rank(), comm.next(), 0);
          Request request =
              post_pair(comm, "small", comm.next(), whole(sent), comm.prev(), whole(received));
          request.wait();
          test::write_pattern(whole(sent), 99, 99, 99);  // may be overwritten now
          EXPECT_TRUE(test::has_pattern(whole(received), comm.prev(), comm.rank(), 0));
        },
        {.debug = {.ledger = true, .poison = true}});
  }
}

TEST(SimulatedTransportTest, SmallReductionsAreComputed) {
  simulate(5, [](const Communicator& comm) {
    const Buffer data = comm.device().allocate(11 * sizeof(float));
    auto* values = reinterpret_cast<float*>(data.data());
    for (int i = 0; i < 11; ++i) values[i] = static_cast<float>(comm.rank() + i);
    all_reduce(comm, whole(data), Element::f32);
    comm.device().synchronize(comm.deadline());
    for (int i = 0; i < 11; ++i) EXPECT_EQ(values[i], 10 + 5 * i);
  });
}

Slice tensor(Device& device, std::int64_t bytes, bool values) {
  return whole(values ? device.allocate_values(bytes) : device.allocate(bytes));
}

/// Of a ring that passes on what it has received, in memory that has values or not.
double seconds_of_an_all_gather(bool values) {
  double last = 0;
  simulate(7, [&](const Communicator& comm) {
    std::vector<Slice> parts;
    for (int rank = 0; rank < comm.size(); ++rank)
      parts.push_back(tensor(comm.device(), 8192, values));
    if (values) test::write_pattern(parts[comm.rank()], comm.rank(), 0, 0);
    all_gather(comm, parts);
    comm.device().synchronize(comm.deadline());
    last = std::max(last, comm.device().now());
    for (int rank = 0; values && rank < comm.size(); ++rank)
      EXPECT_TRUE(test::has_pattern(parts[rank], rank, 0, 0));
  });
  return last;
}

/// Of a hierarchical exchange among 4 nodes, in its stages. Memory of its own that messages pass
/// through has values up to 4 KiB.
double seconds_of_an_exchange(std::int64_t bytes, bool values) {
  const bool checked = values && bytes <= 64;
  double last = 0;
  simulate(32, [&](const Communicator& comm) {
    const auto buffer = [&] { return tensor(comm.device(), bytes * comm.size(), values); };
    const Slice sent = buffer(), received = buffer();
    for (int to = 0; checked && to < comm.size(); ++to)
      test::write_pattern(slice(sent.buffer, to * bytes, bytes), comm.rank(), to, 0);
    all_to_all(comm, sent, received, AllToAllAlgorithm::hierarchical);
    comm.device().synchronize(comm.deadline());
    last = std::max(last, comm.device().now());
    for (int from = 0; checked && from < comm.size(); ++from)
      EXPECT_TRUE(
          test::has_pattern(slice(received.buffer, from * bytes, bytes), from, comm.rank(), 0));
  });
  return last;
}

/// When the last host has seen by test() alone that each of its messages came, one after the other.
double seconds_of_tests(bool values) {
  double last = 0;
  simulate(7, [&](const Communicator& comm) {
    const auto buffer = [&] { return tensor(comm.device(), 8192, values); };
    for (int step = 0; step < 3; ++step) {
      Slice sent = buffer(), received = buffer();
      if (values) test::write_pattern(sent, comm.rank(), comm.next(), step);
      Request request = post_pair(comm, "tested", comm.next(), sent, comm.prev(), received);
      while (!request.test()) {
      }
      EXPECT_TRUE(!values || test::has_pattern(received, comm.prev(), comm.rank(), step));
    }
    last = std::max(last, comm.device().now());
  });
  return last;
}

TEST(SimulatedTransportTest, MessagesWithValuesTakeAsLongAsOthers) {
  EXPECT_DOUBLE_EQ(seconds_of_an_all_gather(true), seconds_of_an_all_gather(false));
  for (const std::int64_t bytes : {64, 65536})
    EXPECT_DOUBLE_EQ(seconds_of_an_exchange(bytes, true), seconds_of_an_exchange(bytes, false));
  EXPECT_DOUBLE_EQ(seconds_of_tests(true), seconds_of_tests(false));
}

TEST(SimulatedTransportTest, AHostRunsAheadOfMessagesWithValues) {
  simulate(2, [](const Communicator& comm) {
    const Buffer sent = comm.device().allocate(8), received = comm.device().allocate(8);
    barrier(comm);
    const double start = comm.device().now();
    post_pair(comm, "small", comm.next(), whole(sent), comm.prev(), whole(received)).wait();
    EXPECT_NEAR(comm.device().now() - start, 1e-9, 1e-15) << "one post";
    comm.device().synchronize(comm.deadline());
    EXPECT_NEAR(comm.device().now() - start, 1e-9 + 1e-6 + 8 / 160e9, 1e-15);
  });
}

TEST(SimulatedMemoryTest, TensorsAreCountedAndHaveAddressesOfTheirOwn) {
  simulate(2, [](const Communicator& comm) {
    constexpr std::int64_t kHuge = 1ll << 40;
    Device& device = comm.device();
    const Buffer kept = device.allocate(kHuge);
    {
      const Buffer other = device.allocate(kHuge);
      EXPECT_NE(kept.data(), other.data());
      EXPECT_EQ(device.memory().current, 2 * kHuge);
      EXPECT_TRUE(kept.data() + kHuge <= other.data() || other.data() + kHuge <= kept.data());
    }
    EXPECT_EQ(device.memory().current, kHuge);
    EXPECT_EQ(device.memory().peak, 2 * kHuge);
    device.reset_peak();
    EXPECT_EQ(device.memory().peak, kHuge);
    EXPECT_THROW((void)device.allocate(-1), Error);
    EXPECT_EQ(device.allocate(0).bytes(), 0);
    EXPECT_EQ(device.allocate_values(1 << 20).bytes(), 1 << 20);
  });
}

TEST(SimulatedMemoryTest, ATensorIsNotToBeTouched) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(simulate(1,
                        [](const Communicator& comm) {
                          const Buffer tensor = comm.device().allocate(4097);
                          *tensor.data() = std::byte{1};
                        }),
               "");
}

// What is waited for is given back, wherever the clock is.
TEST(SimulatedMemoryTest, IsFreeWhenItsMessageHasBeenWaitedFor) {
  simulate(2, [](const Communicator& comm) {
    post_pair(comm, "hop", comm.next(), whole(comm.device().allocate(1 << 30)), comm.prev(),
              whole(comm.device().allocate(1 << 30)))
        .wait();
    EXPECT_EQ(comm.device().memory().current, 0);
  });
}

/// What each rank has sent and held at most, on threads and simulated.
struct Use {
  Traffic traffic;
  std::int64_t peak;
};

void expect_as_on_threads(int ranks, const RankFunction& body) {
  const auto use_on = [&](std::string_view transport) {
    std::vector<Use> uses(ranks);
    LaunchOptions options{.ranks = ranks, .ranks_per_node = 8, .deadline = 20};
    options.cluster = std::make_shared<const Cluster>(cluster());
    launch(transport, options, [&](const Communicator& comm) {
      body(comm);
      barrier(comm);
      uses[comm.rank()] = {comm.traffic(), comm.device().memory().peak};
    });
    return uses;
  };
  const std::vector<Use> threads = use_on("threads"), simulated = use_on("simulated");
  for (int rank = 0; rank < ranks; ++rank) {
    const Use &real = threads[rank], &timed = simulated[rank];
    EXPECT_EQ(timed.traffic.bytes_sent, real.traffic.bytes_sent);
    EXPECT_EQ(timed.traffic.messages_sent, real.traffic.messages_sent);
    EXPECT_EQ(timed.traffic.inter_node_bytes_sent, real.traffic.inter_node_bytes_sent);
    EXPECT_EQ(timed.traffic.bytes_copied, real.traffic.bytes_copied);
    EXPECT_EQ(timed.peak, real.peak);
  }
}

TEST(SimulatedTransportTest, CountsTrafficAndMemoryAsThreadsDo) {
  for (const int ranks : {1, 2, 5, 16}) {
    for (const std::int64_t bytes : {1, 1024, 3 * 8192}) {
      expect_as_on_threads(ranks, [=](const Communicator& comm) {
        const auto buffer = [&] { return whole(comm.device().allocate(bytes * comm.size())); };
        all_to_all(comm, buffer(), buffer());
        all_to_all(comm, buffer(), buffer(), AllToAllAlgorithm::hierarchical);
        broadcast(comm, buffer(), comm.size() - 1);
        all_reduce(comm, whole(comm.device().allocate(4 * bytes)), Element::f32);
        std::vector<Slice> parts;
        for (int rank = 0; rank < comm.size(); ++rank)
          parts.push_back(whole(comm.device().allocate(bytes + rank)));
        all_gather(comm, parts);
        DoubleRing ring(comm, comm.size() % 2 == 0 ? 2 : 1,
                        std::vector<std::int64_t>(comm.size(), bytes));
        for (int step = 0; step < comm.size(); ++step) {
          if (step == 0) ring.begin();
          ring.start();
          ring.finish();
        }
      });
    }
  }
}

// Time that depends on everything: matches, links, noise-free.
double seconds_of_a_mix() {
  double last = 0;
  simulate(32, [&](const Communicator& comm) {
    Device& device = comm.device();
    for (int round = 0; round < 3; ++round) {
      const Slice data = whole(device.allocate(32 * 100'003));
      device.compute(1e-5 * (comm.rank() * 7 % 5), "uneven");
      all_to_all(comm, data, whole(device.allocate(32 * 100'003)), AllToAllAlgorithm::hierarchical);
      all_to_all(comm, data, whole(device.allocate(32 * 100'003)));
    }
    device.synchronize(comm.deadline());
    last = std::max(last, device.now());
  });
  return last;
}

TEST(SimulatedRepeatTest, RunsOfAProcessAreEqualButForTheRoundingOfItsClock) {
  const double first = seconds_of_a_mix();
  EXPECT_NEAR(seconds_of_a_mix(), first, 1e-12);
}

TEST(SimulatedRepeatTest, DISABLED_PrintsSeconds) {
  std::printf("seconds %a\n", seconds_of_a_mix());
}

/// What that test prints in a process of its own.
std::string printed_by_a_new_process() {
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests"
                              " --gtest_filter=SimulatedRepeatTest.DISABLED_PrintsSeconds";
  std::string all;
  FILE* const output = popen(command.c_str(), "r");
  for (int character = 0; (character = std::fgetc(output)) != EOF;)
    all += static_cast<char>(character);
  pclose(output);
  const std::size_t begin = all.find("seconds ");
  return begin == all.npos ? "" : all.substr(begin, all.find('\n', begin) - begin);
}

TEST(SimulatedRepeatTest, RunsOfNewProcessesAreEqualInEveryBit) {
  const std::string first = printed_by_a_new_process();
  EXPECT_NE(first, "");
  EXPECT_EQ(printed_by_a_new_process(), first);
}

}  // namespace simulated_transport_test
}  // namespace ringspan::comm
