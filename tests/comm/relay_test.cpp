// SPDX-License-Identifier: Apache-2.0
// Machines that are pieces of memory of this process, each with its hub, its lanes and its relay,
// joined over TCP.
#include "comm/transports/streams/relay.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/pretended_machines.hpp"

namespace ringspan::comm::streams {
namespace relay_test {

using test::kLongest;
using test::seats;
using Clock = std::chrono::steady_clock;
using diagnosis::Waiting;

constexpr double kDeadline = 1;  // seconds

bool soon(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::duration<double>(kLongest);
  while (!condition() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

struct Host {
  std::shared_ptr<SharedHub> hub;
  std::shared_ptr<Lanes> lanes;
  std::unique_ptr<Relay> relay;
};

std::vector<Host> apart(const std::vector<int>& per_host) {
  const Machines machines(seats(per_host));
  const int ranks = machines.processes();
  std::vector<Host> hosts(machines.size());
  for (int machine = 0; machine < machines.size(); ++machine) {
    Host& host = hosts[machine];
    const LaunchOptions options{.ranks = ranks, .deadline = kDeadline};
    const std::vector<int>& here = machines.members(machine);
    host.hub =
        std::make_shared<SharedHub>(std::make_unique<SharedMemory>(SharedHub::bytes(ranks)),
                                    options, nullptr, true, machines.first(machine), machines);
    const std::size_t bytes = Lanes::bytes(ranks, static_cast<int>(here.size()));
    host.lanes = std::make_shared<Lanes>(std::make_unique<SharedMemory>(bytes), ranks, here);
    host.hub->start();
    host.lanes->start();
  }
  return hosts;
}

void join(std::vector<Host>& hosts) {
  const Machines& machines = hosts[0].hub->machines();
  auto links = test::links(machines);
  for (int machine = 0; machine < machines.size(); ++machine) {
    Host& host = hosts[machine];
    host.relay = std::make_unique<Relay>(host.hub, host.lanes, machine, std::move(links[machine]));
  }
}

std::vector<Host> hosts(const std::vector<int>& per_host) {
  std::vector<Host> hosts = apart(per_host);
  join(hosts);
  return hosts;
}

/// All processes leave, so that those who part are not missed.
void leave(const std::vector<Host>& hosts) {
  const Machines& machines = hosts[0].hub->machines();
  for (int rank = 0; rank < machines.processes(); ++rank)
    hosts[machines.of(rank)].hub->set_returned(rank);
}

Offer offer(std::int64_t channel, std::int64_t sequence, std::int64_t bytes) {
  Offer offer{channel, sequence, bytes, {}, {}};
  std::strcpy(offer.operation, "pass_on");
  return offer;
}

TEST(RelayTest, TellsOtherMachinesHowRanksAre) {
  auto all = apart({2, 1, 1});
  SharedHub &first = *all[0].hub, &second = *all[1].hub;
  // Machines come to groups in different orders, and so number them differently.
  const auto world = first.join(-1, 0, {0, 1, 2, 3});
  const auto pair = first.join(world->id, 0, {0, 1});
  const auto late = second.join(second.join(-1, 0, {0, 1, 2, 3})->id, 1, {0, 1, 2});
  const auto same = first.join(world->id, 1, {0, 1, 2});
  EXPECT_NE(late->id, same->id);
  join(all);
  world->posted[1] = 7;
  same->posted[1] = 3;
  first.beat(1);
  first.set_active(1, true);
  first.set_waiting(1, Waiting{same, 3, "pass_on", {2}});
  ASSERT_TRUE(soon([&] { return second.waiting(1).has_value(); }));
  const Waiting waiting = *second.waiting(1);
  EXPECT_EQ(waiting.operation, "pass_on");
  EXPECT_EQ(waiting.sequence, 3);
  EXPECT_EQ(waiting.peers, std::vector{2});
  ASSERT_TRUE(waiting.group);
  EXPECT_EQ(waiting.group->id, late->id);
  EXPECT_EQ(second.posted(*late, 1), 3);
  EXPECT_TRUE(second.active(1));
  EXPECT_EQ(second.heartbeat(1), first.heartbeat(1));
  EXPECT_TRUE(second.answers(1));
  EXPECT_FALSE(second.returned(0));
  first.set_returned(0);
  EXPECT_TRUE(soon([&] { return second.returned(0) && all[2].hub->returned(0); }));
  EXPECT_EQ(second.lost(0), "");
  leave(all);
}

TEST(RelayTest, TellsNothingOfALookThatIsOutdated) {
  const auto all = hosts({1, 1});
  SharedHub &first = *all[0].hub, &second = *all[1].hub;
  const auto look = [&](double seconds_ago) {
    const auto ago = static_cast<std::int64_t>(seconds_ago * 1e9);
    first.set_waiting(0, Waiting{nullptr, -1, "request", {1}, diagnosis::steady_now() - ago});
  };
  look(-60);  // however slow this machine is, not yet outdated
  EXPECT_TRUE(first.waiting(0));
  EXPECT_TRUE(soon([&] { return second.waiting(0).has_value(); }));
  look(kDeadline);
  EXPECT_FALSE(first.waiting(0));
  EXPECT_TRUE(soon([&] { return !second.waiting(0); }));
  leave(all);
}

TEST(RelayTest, HeartbeatsRiseWithNewsAndGoStaleInACycleOfWaits) {
  const auto all = hosts({1, 1});
  SharedHub &first = *all[0].hub, &second = *all[1].hub;
  for (int i = 0; i < 100; ++i) first.beat(0);
  ASSERT_TRUE(soon([&] { return second.heartbeat(0) == first.heartbeat(0); }));
  second.beat(1);  // after all that it has heard of
  EXPECT_GT(second.heartbeat(1), second.heartbeat(0));
  std::int64_t newest = 0;
  const auto pass_on = [&] {
    first.pass_on(0, first.heartbeat(1));
    second.pass_on(1, second.heartbeat(0));
    newest = std::max(first.heartbeat(0), second.heartbeat(1));
  };
  const std::int64_t fresh = second.heartbeat(1);
  EXPECT_TRUE(soon([&] { return pass_on(), first.heartbeat(0) == fresh; }));
  for (const auto end = Clock::now() + std::chrono::milliseconds(300); Clock::now() < end;)
    pass_on();
  EXPECT_EQ(newest, fresh);
  leave(all);
}

TEST(RelayTest, HalvesMeetAndMayBeAsFarAheadAsOnOneMachine) {
  const auto all = hosts({1, 2});
  all[0].hub->join(-1, 0, {0, 1, 2});
  all[1].hub->join(-1, 0, {0, 1, 2});
  const Lanes::Side sender{0, 2, true}, receiver{0, 2, false};
  Lanes &here = *all[0].lanes, &there = *all[1].lanes;
  for (std::int64_t number = 0; number < Lanes::kSlots; ++number) {
    ASSERT_TRUE(soon([&] { return here.room(sender, number); }));
    EXPECT_FALSE(here.announce(sender, number, offer(0, number, 8)));
  }
  EXPECT_FALSE(here.room(sender, Lanes::kSlots));
  EXPECT_FALSE(here.has_met(sender, 0));
  constexpr std::int64_t kLast = 4 * Lanes::kSlots - 1;
  std::int64_t sent = Lanes::kSlots, received = 0;
  const auto go_on = [&] {
    for (; sent <= kLast && here.room(sender, sent); ++sent)
      here.announce(sender, sent, offer(0, sent, 8));
    for (; received <= kLast && there.room(receiver, received); ++received) {
      const auto other = there.announce(receiver, received, offer(0, received, 8));
      EXPECT_TRUE(!other || other->sequence == received);
    }
    return here.has_met(sender, kLast) && there.has_met(receiver, kLast);
  };
  EXPECT_TRUE(soon(go_on));
  EXPECT_FALSE(all[0].hub->failure());
  EXPECT_FALSE(all[1].hub->failure());
  leave(all);
}

TEST(RelayTest, HalvesThatDoNotFitFailOnBothMachines) {
  const auto all = hosts({1, 1});
  for (const Host& host : all) host.hub->join(-1, 0, {0, 1});
  all[0].lanes->announce({0, 1, true}, 0, offer(0, 0, 8));
  all[1].lanes->announce({0, 1, false}, 0, offer(0, 0, 9));
  for (const Host& host : all) {
    ASSERT_TRUE(soon([&] { return static_cast<bool>(host.hub->failure()); }));
    const auto failure = host.hub->failure().get();
    EXPECT_STREQ(failure->cause.what(),
                 "rank 0 sends 8 bytes in operation 0, pass_on, where rank 1 expects 9 bytes in "
                 "operation 0, pass_on");
    EXPECT_EQ(failure->cause.where().peer, 0);
  }
  leave(all);
}

TEST(RelayTest, AllLeaveWithTheFailureOfTheFirstMachine) {
  auto all = hosts({1, 1, 1});
  for (int rank : {2, 1, 0})
    all[rank].hub->fail(Error(ErrorKind::system, concat("rank ", rank, " says so"), {rank, rank}));
  std::vector<std::string> thrown(all.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    threads.emplace_back([&, rank] {
      SharedHub& hub = *all[rank].hub;
      hub.set_returned(static_cast<int>(rank));
      try {
        hub.leave();
      } catch (const Error& error) {
        thrown[rank] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, std::vector<std::string>(3, "rank 0 says so"));
}

TEST(RelayTest, NamesTheHolderOfAConnectionThatHasEnded) {
  auto all = hosts({2, 2, 1});
  all[1].relay = nullptr;  // as if its process had been killed
  for (const int machine : {0, 2}) {
    SharedHub& hub = *all[machine].hub;
    ASSERT_TRUE(soon([&] { return static_cast<bool>(hub.failure()); }));
    const auto failure = hub.failure().get();
    EXPECT_STREQ(failure->cause.what(),
                 "rank 2 is gone: the connection to its host, host1, has ended");
    EXPECT_EQ(failure->cause.where().peer, 2);
    EXPECT_TRUE(soon([&] { return !hub.lost(3).empty(); }));
    EXPECT_EQ(hub.lost(1), "");
  }
}

TEST(RelayTest, TellsWhoeverTellsNonsenseThatTheLaunchHasFailed) {
  auto all = apart({1, 1});
  auto links = test::links(all[0].hub->machines());
  all[0].relay = std::make_unique<Relay>(all[0].hub, all[0].lanes, 0, std::move(links[0]));
  Link& other = *links[1][0];
  other.send(std::vector<std::byte>{std::byte{77}});
  bool told = false;
  EXPECT_TRUE(soon([&] {
    other.advance([&](std::span<const std::byte> frame) {
      const std::string text(reinterpret_cast<const char*>(frame.data()), frame.size());
      told = told || text.find("host1: a word between hosts makes no sense") != text.npos;
      return true;
    });
    return told && other.ended();
  }));
  EXPECT_TRUE(all[0].hub->failure());
  all[0].hub->set_returned(0);
}

TEST(RelayTest, BlamesWhoeverShouldTellOfAHostThatIsNotHeardOf) {
  const Machines machines(seats({1, 2}));
  const LaunchOptions options{.ranks = 3, .deadline = 0.1};
  SharedHub hub(std::make_unique<SharedMemory>(SharedHub::bytes(3)), options, nullptr, true, 0,
                machines);
  hub.start();
  hub.turn();
  hub.hear(1);
  EXPECT_TRUE(hub.answers(2));
  EXPECT_FALSE(hub.waiting(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  hub.turn();
  const auto world = hub.join(-1, 0, {0, 1, 2});
  const Error error = diagnosis::blame(hub, 0, {world, 4, "pass_on", {2}}, 0.1);
  EXPECT_EQ(error.where().peer, 1);
  EXPECT_STREQ(error.what(), "word from host1; rank 1 makes no progress (deadline 0.1 s)");
}

}  // namespace relay_test
}  // namespace ringspan::comm::streams
