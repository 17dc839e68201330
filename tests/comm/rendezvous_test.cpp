// SPDX-License-Identifier: Apache-2.0
// How the relays of machines find each other, and what goes over a link.
#include "comm/transports/streams/rendezvous.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/comm/pretended_machines.hpp"

namespace ringspan::comm::streams {
namespace rendezvous_test {

using test::links;
using test::seats;
using Clock = std::chrono::steady_clock;

TEST(MachinesTest, AreThoseWhoShareMemory) {
  std::vector<processes::Seat> all = seats({2, 1, 2});
  std::swap(all[1], all[4]);
  const Machines machines(all);
  ASSERT_EQ(machines.size(), 3);
  EXPECT_EQ(machines.members(0), (std::vector{0, 4}));
  EXPECT_EQ(machines.members(1), (std::vector{1, 3}));
  EXPECT_EQ(machines.host(1), "host2");
  EXPECT_EQ(machines.of(2), 2);
  all[2].machine = {"another kernel"};
  all[2].shared_memory = all[0].shared_memory;
  EXPECT_EQ(Machines(all).size(), 3);
}

TEST(LinkTest, PassesWholeFramesOnInOrderThoughSomeAreTakenLater) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Link from{Socket(ends[0])}, to{Socket(ends[1])};
  constexpr int kFrames = 300;
  for (int i = 0; i < kFrames; ++i) {
    const std::vector<int> frame(10 * i + 1, i);
    from.send(std::as_bytes(std::span(frame)));
  }
  from.close();
  int next = 0;
  bool refuses = false;
  for (const auto end = Clock::now() + std::chrono::seconds(10);
       !to.ended() && Clock::now() < end;) {
    from.advance([](auto) { return true; });
    to.advance([&](std::span<const std::byte> frame) {
      if ((refuses = !refuses)) return false;
      std::vector<int> values(frame.size() / sizeof(int));
      std::memcpy(values.data(), frame.data(), frame.size());
      EXPECT_EQ(values, std::vector<int>(10 * next + 1, next));
      ++next;
      return true;
    });
  }
  EXPECT_EQ(next, kFrames);
  EXPECT_TRUE(to.ended());
}

TEST(RendezvousTest, JoinsAnyNumberOfMachinesAndPaysNoHeedToStrangers) {
  for (const int number : {2, 3, 5}) {
    const Machines machines(seats(std::vector<int>(number, 1)));
    const auto all = links(machines);
    for (int machine = 0; machine < number; ++machine)
      for (int other = 0; other < number; ++other)
        EXPECT_EQ(all[machine][other] != nullptr, machine != other);
  }
  // Who knows no secret is neither answered nor taken for somebody.
  const Machines machines(seats({1, 1}));
  Rendezvous lower, higher;
  std::vector<Contact> contacts{lower.contact(), higher.contact()};
  contacts[0].secret = {1, 2};
  const auto error = [&] {
    try {
      std::thread caller([&] { EXPECT_THROW(higher.meet(machines, 1, contacts, 0.2), Error); });
      const std::vector<Contact> known{lower.contact(), higher.contact()};
      EXPECT_THROW(lower.meet(machines, 0, known, 0.2), Error);
      caller.join();
      higher.meet(machines, 1, contacts, 0.05);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  EXPECT_EQ(error.find("relay: host1 has no connection within 0.05 s with host0 (called at "), 0u)
      << error;
}

// At the first of its addresses somebody else listens, who answers.
TEST(RendezvousTest, CallersTakeNobodyWhoseAnswerIsWrong) {
  const Machines machines(seats({1, 1}));
  Rendezvous lower, higher;
  std::vector<Contact> contacts{lower.contact(), higher.contact()};
  const Socket stranger(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(at);
  ASSERT_EQ(bind(stranger.descriptor(), reinterpret_cast<sockaddr*>(&at), length), 0);
  ASSERT_EQ(listen(stranger.descriptor(), 1), 0);
  ASSERT_EQ(getsockname(stranger.descriptor(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  Contact called = contacts[0];
  called.count = 1;
  called.addresses[0].length = length;
  std::memcpy(called.addresses[0].bytes.data(), &at, length);
  std::thread answers([&] {
    const Socket call(accept(stranger.descriptor(), nullptr, nullptr));
    std::array<char, 24> greeting;
    recv(call.descriptor(), greeting.data(), greeting.size(), MSG_WAITALL);
    send(call.descriptor(), "another's secret", 16, MSG_NOSIGNAL);
    recv(call.descriptor(), greeting.data(), 1, 0);  // until it hangs up
  });
  EXPECT_THROW(higher.meet(machines, 1, {called, contacts[1]}, 0.3), Error);
  answers.join();
}

TEST(RendezvousTest, SaysSoWhenThereAreNoDescriptors) {
  const Machines machines(seats({1, 1}));
  Rendezvous lower, higher;
  const std::vector<Contact> contacts{lower.contact(), higher.contact()};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string said;
  try {
    higher.meet(machines, 1, contacts, 0.3);
  } catch (const Error& error) {
    said = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(said, concat("relay: socket: ", std::strerror(EMFILE)));
}

}  // namespace rendezvous_test
}  // namespace ringspan::comm::streams
