// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/failure.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/forwarding_transport.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm::test {
namespace {

// One more than posts before the latest fault: who has its last message may leave before it hears.
constexpr int kRounds = 5;
constexpr double kDeadline = 0.05;

struct LeavesEarly {};

/// Seconds that a rank stops answering, unless all others are seen to have given up before.
double silence(double deadline) { return deadline + 0.3; }

/// Shared by all groups of the faulty rank, so that its posts are counted over all of them.
struct Injection {
  bool strikes(std::span<Send> sends, std::span<Recv> recvs) {
    if (faulty.fault == Fault::skips_operation) return false;
    const bool needs_send = faulty.fault == Fault::wrong_size || faulty.fault == Fault::wrong_name;
    const bool needs_recv = faulty.fault == Fault::drops_request;
    if ((needs_send && sends.empty()) || (needs_recv && recvs.empty())) return false;
    return posts++ == faulty.at;
  }

  FaultyRank faulty;
  double deadline;
  std::atomic<int>& others_running;  // of this process
  int posts = 0;
};

class FaultyTransport final : public ForwardingTransport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Injection> injection)
      : ForwardingTransport(std::move(inner)), injection_(std::move(injection)) {}

  std::shared_ptr<Transport> group(std::span<const int> ranks) override {
    return std::make_shared<FaultyTransport>(inner().group(ranks), injection_);
  }

  Request post(std::string_view operation, std::span<Send> sends, std::span<Recv> recvs) override {
    if (!injection_->strikes(sends, recvs)) return inner().post(operation, sends, recvs);
    switch (injection_->faulty.fault) {
      case Fault::throws: throw std::runtime_error("injected");
      case Fault::returns_early: throw LeavesEarly();
      case Fault::stops_answering: stop();
      case Fault::wrong_size: {
        Slice& sent = sends.front().slice;
        sent = whole(device().allocate(sent.bytes() + 1));
        return inner().post(operation, sends, recvs);
      }
      case Fault::wrong_name: return inner().post("something_else", sends, recvs);
      case Fault::drops_request: {
        std::vector<Recv> pending(recvs.begin(), recvs.end());
        pending.push_back({rank(), whole(device().allocate(1))});  // from itself: never sent
        { const Request dropped = inner().post(operation, sends, pending); }
        while (on_gpus()) device().poll();  // throws; until then a GPU may write what is received
        return {};
      }
      case Fault::skips_operation: break;
    }
    throw std::logic_error("no such fault");
  }

 private:
  // Ranks in other processes do not show when they have given up.
  [[noreturn]] void stop() const {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(silence(injection_->deadline));
    while (injection_->others_running > 0 && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw LeavesEarly();
  }

  const std::shared_ptr<Injection> injection_;
};

// Where ranks disagree, the message names both sides; otherwise there is one to blame.
void expect_names(const FaultyRank& faulty, const Error& error) {
  const bool disagree = faulty.fault == Fault::wrong_size || faulty.fault == Fault::wrong_name ||
                        faulty.fault == Fault::skips_operation;
  const bool named =
      std::string(error.what()).find(concat("rank ", faulty.rank)) != std::string::npos;
  EXPECT_TRUE(error.where().peer == faulty.rank || (disagree && named))
      << name(faulty.fault) << " on rank " << faulty.rank << ", post " << faulty.at
      << ": blamed is " << error.where().peer << ": " << error.what();
}

void run_rounds(const Communicator& comm, int skipped, const RankFunction& operation) {
  for (int round = 0; round < kRounds; ++round) {
    if (round != skipped) operation(comm);
    barrier(comm);
  }
}

}  // namespace

std::string_view name(Fault fault) {
  switch (fault) {
    case Fault::throws: return "throws";
    case Fault::returns_early: return "returns_early";
    case Fault::stops_answering: return "stops_answering";
    case Fault::wrong_size: return "wrong_size";
    case Fault::wrong_name: return "wrong_name";
    case Fault::skips_operation: return "skips_operation";
    case Fault::drops_request: return "drops_request";
  }
  return "unknown";
}

void expect_blamed(const FaultyRank& faulty, const LaunchOptions& options,
                   const RankFunction& operation) {
  std::atomic<int> others_running{options.ranks - 1};
  const bool skips = faulty.fault == Fault::skips_operation;
  const auto body = [&](const Communicator& world) {
    if (world.rank() == faulty.rank) {
      const auto injection =
          std::make_shared<Injection>(Injection{faulty, options.deadline, others_running});
      const auto transport = std::make_shared<FaultyTransport>(world.transport(), injection);
      try {
        run_rounds(world.through(transport), skips ? faulty.at % kRounds : -1, operation);
      } catch (const LeavesEarly&) {
      }
      return;
    }
    std::optional<Error> caught;
    try {
      run_rounds(world, -1, operation);
    } catch (const Error& error) {
      caught = error;
    }
    --others_running;
    // A transport that buffers takes what is sent to a rank that skips; launch() tells in the end.
    if (!caught && skips && !on_threads()) return;
    ASSERT_TRUE(caught) << "rank " << world.rank() << " did not notice: " << name(faulty.fault)
                        << " on rank " << faulty.rank << ", post " << faulty.at;
    EXPECT_EQ(caught->where().rank, world.rank());
    expect_names(faulty, *caught);
  };

  const auto start = std::chrono::steady_clock::now();
  std::optional<Error> thrown;
  try {
    launch(options, body);
  } catch (const Error& error) {
    thrown = error;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(thrown) << name(faulty.fault);
  expect_names(faulty, *thrown);
  const bool was_silent = faulty.fault == Fault::stops_answering && process().rank == faulty.rank;
  EXPECT_LT(seconds.count(), options.deadline + 2 + (was_silent ? silence(options.deadline) : 0))
      << name(faulty.fault);
}

void expect_always_blamed(Fault fault, Hop hop, const RankFunction& operation) {
  constexpr struct {
    int ranks, faulty, post;
  } kPlaces[] = {{2, 1, 0}, {5, 4, 3}, {3, 0, 1}, {4, 2, 2}, {2, 0, 3}, {3, 2, 0}, {4, 1, 1}};
#ifdef __SANITIZE_ADDRESS__
  const std::size_t places = 3;
#else
  const std::size_t places = on_threads() ? std::size(kPlaces) : 3;  // processes take their time
#endif
  // The streams of emulated GPUs are threads, which are to have had a core by then.
  const double deadline = on_gpus() ? 10 * kDeadline : kDeadline;
  for (const auto& place : std::span(kPlaces).first(places)) {
    if (!enough_processes(place.ranks)) continue;
    LaunchOptions options{.ranks = place.ranks, .hop = hop, .deadline = deadline};
    // Others than threads need not look at names, and buffer what nobody receives.
    options.debug.ledger = fault == Fault::wrong_name || fault == Fault::skips_operation;
    expect_blamed({fault, place.faulty, place.post}, options, operation);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace ringspan::comm::test
