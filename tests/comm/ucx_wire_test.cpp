// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/ucx/ucx_wire.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/error.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/shared_memory.hpp"

namespace ringspan::comm::ucx {
namespace {

using processes::Notice;
using processes::Transfer;
using processes::Wire;
using testing::Each;
using testing::ElementsAre;
using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr double kPatience = 10.0;  // seconds; far more than anything here takes
constexpr double kDeadline = 20.0;
constexpr int kKilled = SIGKILL;  // the status of a process that ended by it

/// A message that names its sender, tag and place in every byte.
Bytes message(int sender, std::int64_t tag, std::size_t bytes) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i * 31 + i / 256 + static_cast<std::size_t>(sender) * 7 +
                                     static_cast<std::size_t>(tag));
  return data;
}

/// In a forked rank there is no test to fail: what does not hold ends it.
void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}

template <typename Condition>
void progress_until(Wire& wire, Condition condition) {
  const auto end = Clock::now() + std::chrono::duration<double>(kPatience);
  while (!condition()) {
    require(Clock::now() < end, "ends within the deadline");
    wire.progress();
  }
}

void finish(Wire& wire, Transfer& transfer) {
  progress_until(wire, [&] { return transfer.done(); });
}

void say(Wire& wire, int to, std::span<const std::byte> bytes) {
  progress_until(wire, [&] { return wire.send_notice(to, bytes); });
}

Notice hear(Wire& wire) {
  std::optional<Notice> notice;
  progress_until(wire, [&] { return (notice = wire.receive_notice()).has_value(); });
  return *notice;
}

/// Returns when every rank has called it; on the wire, so that it progresses.
void meet(Wire& wire) {
  for (int rank = 0; rank < wire.size(); ++rank) say(wire, rank, {});
  for (int rank = 0; rank < wire.size(); ++rank) hear(wire);
}

/// The test's parameter: UCX_TLS, or "" for UCX's own choice.
class UcxWireTest : public testing::TestWithParam<std::string> {
 protected:
  using Body = std::function<void(Wire&)>;

  static std::vector<int> run(int ranks, const Body& body) {
    return fork_ranks(ranks, kDeadline, [&](const Bootstrap& bootstrap) {
      if (!GetParam().empty()) setenv("UCX_TLS", GetParam().c_str(), 1);
      body(*make_ucx_wire(bootstrap, kDeadline));
    });
  }

  static void passes(int ranks, const Body& body) { EXPECT_THAT(run(ranks, body), Each(0)); }
};

/// Sends to one rank while it receives from another.
void exchange(Wire& wire, int to, int from, std::size_t bytes) {
  const Bytes sent = message(wire.rank(), 5, bytes);
  Bytes received(bytes);
  const auto receive = wire.receive(from, 5, received);
  const auto send = wire.send(to, 5, sent);
  finish(wire, *receive);
  finish(wire, *send);
  require(receive->received() == static_cast<std::int64_t>(bytes), "all bytes have come");
  require(received == message(from, 5, bytes), "they are the ones sent");
}

TEST_P(UcxWireTest, DeliversEverySize) {
  for (const int ranks : {1, 2, 3}) {
    passes(ranks, [](Wire& wire) {
      for (const std::size_t bytes : {0, 1, 4095, 4096, 65536, 1 << 20, 1 << 26})
        exchange(wire, (wire.rank() + 1) % wire.size(),
                 (wire.rank() + wire.size() - 1) % wire.size(), bytes);
    });
  }
}

TEST_P(UcxWireTest, MatchesInOrderPerPeerAndTag) {
  passes(2, [](Wire& wire) {
    const int other = 1 - wire.rank();
    const std::int64_t tags[] = {0, 7, wire.tags() - 1};
    constexpr std::size_t sizes[] = {100, 100000, 10, 2000000};
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::vector<Bytes> sent, received;
    for (const std::int64_t tag : tags)
      for (const std::size_t bytes : sizes) sent.push_back(message(wire.rank(), tag, bytes));
    for (std::size_t i = 0; i < sent.size(); ++i)
      transfers.push_back(wire.send(other, tags[i / 4], sent[i]));
    for (const Bytes& bytes : sent) received.emplace_back(bytes.size());
    for (std::size_t i = sent.size(); i-- > 0;)  // tags in another order, messages in the same one
      transfers.push_back(wire.receive(other, tags[i / 4], received[i / 4 * 4 + 3 - i % 4]));
    for (const auto& transfer : transfers) finish(wire, *transfer);
    for (std::size_t i = 0; i < sent.size(); ++i)
      require(received[i] == message(other, tags[i / 4], sizes[i % 4]), "each is in its place");
  });
}

TEST_P(UcxWireTest, ReportsMoreThanFits) {
  passes(2, [](Wire& wire) {
    const int other = 1 - wire.rank();
    for (const bool early : {true, false}) {
      for (const std::size_t bytes : {100, 20000, 3000000}) {
        const Bytes sent = message(wire.rank(), 1, bytes);
        Bytes received(bytes - 1);
        std::unique_ptr<Transfer> receive;
        if (early) receive = wire.receive(other, 1, received);
        meet(wire);
        const auto send = wire.send(other, 1, sent);
        meet(wire);
        if (!early) receive = wire.receive(other, 1, received);
        finish(wire, *receive);
        finish(wire, *send);
        require(receive->received() > static_cast<std::int64_t>(received.size()), "more came");
      }
    }
  });
}

TEST_P(UcxWireTest, NoticesReachEverybodyInOrder) {
  passes(3, [](Wire& wire) {
    constexpr int rounds = 50;
    std::vector<int> heard(wire.size(), 0);
    const auto bytes_of = [](int round) { return static_cast<std::size_t>(round * 1024 / 49); };
    for (int round = 0; round < rounds; ++round)
      for (int to = 0; to < wire.size(); ++to)
        say(wire, to, message(wire.rank(), round, bytes_of(round)));
    for (int i = 0; i < rounds * wire.size(); ++i) {
      const Notice notice = hear(wire);
      const int round = heard[notice.from]++;
      require(notice.bytes == message(notice.from, round, bytes_of(round)), "the notice sent");
    }
  });
}

TEST_P(UcxWireTest, CancelsAReceiveThatHasMetNoMessage) {
  passes(2, [](Wire& wire) {
    const int other = 1 - wire.rank();
    const Bytes sent = message(wire.rank(), 3, 1000);
    Bytes given_up(1000), received(1000);
    const auto first = wire.receive(other, 3, given_up);
    require(first->cancel(), "its memory is free");
    require(first->done(), "it is done");
    meet(wire);
    const auto send = wire.send(other, 3, sent);
    const auto second = wire.receive(other, 3, received);
    finish(wire, *second);
    finish(wire, *send);
    require(received == message(other, 3, 1000), "the next receive has the message");
    require(given_up == Bytes(1000), "the memory given up is as it was");
  });
}

TEST_P(UcxWireTest, WritesNothingMoreIntoAReceiveThatIsGivenUp) {
  passes(2, [](Wire& wire) {
    const std::size_t bytes = std::size_t{1} << 26;
    if (wire.rank() == 0) {
      const Bytes sent(bytes, std::byte{1});
      const auto send = wire.send(1, 0, sent);
      hear(wire);
      return;
    }
    Bytes memory(bytes);
    const auto receive = wire.receive(0, 0, memory);
    progress_until(wire, [&] { return memory[0] == std::byte{1}; });
    progress_until(wire, [&] { return receive->cancel(); });
    std::fill(memory.begin(), memory.end(), std::byte{2});
    const auto end = Clock::now() + std::chrono::milliseconds(100);
    while (Clock::now() < end) wire.progress();
    require(memory == Bytes(bytes, std::byte{2}), "it stays as it was overwritten");
    say(wire, 0, {});
  });
}

TEST_P(UcxWireTest, WhatHasArrivedOutlivesItsSender) {
  passes(2, [](Wire& wire) {
    const Bytes sent = message(0, 2, 500);
    if (wire.rank() == 0) {
      finish(wire, *wire.send(1, 2, sent));
      for (int i = 0; i < 2; ++i) say(wire, 1, {});  // the first has left when the second may
      _exit(0);
    }
    hear(wire);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Bytes received(500);
    finish(wire, *wire.receive(0, 2, received));
    require(received == sent, "it is what was sent");
  });
}

/// What ranks 0 and 1 see of the death of rank 2, for which one waits to send and one to receive.
void outlive(Wire& wire) {
  Bytes data(std::size_t{1} << 22);
  const auto transfer = wire.rank() == 0 ? wire.receive(2, 0, data) : wire.send(2, 0, data);
  try {
    finish(wire, *transfer);
    require(false, "it fails");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::peer_failed && error.where().peer == 2, error.what());
  }
  progress_until(wire, [&] { return !wire.lost(2).empty(); });
  if (!transfer->cancel()) finish(wire, *transfer);
  require(wire.send_notice(2, {}), "a notice to the dead is dropped");
  exchange(wire, 1 - wire.rank(), 1 - wire.rank(), 100000);
}

TEST_P(UcxWireTest, TellsOfAPeerThatDies) {
  const auto statuses = run(3, [](Wire& wire) {
    meet(wire);
    if (wire.rank() == 2) raise(SIGKILL);
    outlive(wire);
  });
  EXPECT_THAT(statuses, ElementsAre(0, 0, kKilled));
}

TEST_P(UcxWireTest, TellsOfAPeerThatDiedBeforeItWasNeeded) {
  const auto statuses = run(3, [](Wire& wire) {
    if (wire.rank() == 2) raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    outlive(wire);
  });
  EXPECT_THAT(statuses, ElementsAre(0, 0, kKilled));
}

TEST_P(UcxWireTest, ClosesSoonWhenAPeerIsStopped) {
  const auto statuses = run(2, [](Wire& wire) {
    meet(wire);
    if (wire.rank() == 1) raise(SIGSTOP);
    const Bytes sent(std::size_t{1} << 24);
    const auto transfer = wire.send(1, 0, sent);
    for (int i = 0; i < 10000; ++i) wire.send_notice(1, sent);
    alarm(5);
  });
  EXPECT_THAT(statuses, ElementsAre(0, kKilled));
}

TEST_P(UcxWireTest, LeavesNoSharedMemoryBehind) {
  const std::set<std::string> before = shared_memory();
  const auto left = [&] {
    std::set<std::string> names;
    for (const std::string& name : shared_memory())
      if (before.count(name) == 0) names.insert(name);
    return names;
  };
  run(3, [](Wire& wire) {
    meet(wire);
    if (wire.rank() == 2) raise(SIGKILL);
    _exit(0);
  });
  // Programs that start beside this test have some for a moment.
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (!left().empty() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(left(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Transports, UcxWireTest, testing::Values("self,sm", "self,tcp", ""),
                         [](const auto& test) {
                           return test.param.empty() ? "any" : test.param.substr(5);
                         });

}  // namespace
}  // namespace ringspan::comm::ucx
