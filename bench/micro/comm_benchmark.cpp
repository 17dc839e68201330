// SPDX-License-Identifier: Apache-2.0
// What a ring hop and an all-to-all cost between two ranks. Each measurement launches its own
// ranks: rank 0 runs Google Benchmark's loop, and tells the other before each turn whether there is
// one, so that both always do the same. A time is the maximum over the ranks.
#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::comm {
namespace {

constexpr int kRanks = 2;

/// Ranks leave a barrier up to a message apart; over several operations that fades.
constexpr int kOperationsPerTurn = 16;

/// Built on every rank from the bytes that it is to send; calling it does it once.
using Operation = std::function<void()>;
using Preparation = Operation (*)(const Communicator&, std::int64_t bytes);

Operation ring_hop(const Communicator& comm, std::int64_t bytes) {
  auto ring = std::make_shared<RingExchange>(comm, bytes);
  std::memset(ring->begin().data(), 1, bytes);
  return [ring, bytes] {
    ring->start(bytes, bytes);
    ring->finish();
  };
}

Operation direct_all_to_all(const Communicator& comm, std::int64_t bytes) {
  const std::int64_t chunk = bytes / (comm.size() - 1);
  std::vector<Slice> send, recv;
  for (int peer = 0; peer < comm.size(); ++peer) {
    const std::int64_t size = peer == comm.rank() ? 0 : chunk;  // what stays costs no message
    send.push_back(whole(comm.device().allocate(size)));
    recv.push_back(whole(comm.device().allocate(size)));
    std::memset(send.back().data(), 1, size);
  }
  auto exchange = std::make_shared<AllToAll>(comm, send, recv, AllToAllAlgorithm::direct);
  return [exchange] {
    exchange->start();
    exchange->finish();
  };
}

/// Seconds per operation, the same on all ranks.
double turn(const Communicator& comm, const Operation& operation) {
  barrier(comm);
  const double start = comm.device().now();
  for (int i = 0; i < kOperationsPerTurn; ++i) operation();
  const double seconds = comm.device().now() - start;
  return all_reduce(comm, seconds, Reduction::max) / kOperationsPerTurn;
}

bool any_wants_more(const Communicator& comm, bool more) {
  return all_reduce(comm, std::int64_t{more}, Reduction::max) != 0;
}

void run_rank(benchmark::State& state, const Communicator& comm, const Operation& operation) {
  turn(comm, operation);  // touches every buffer
  if (comm.rank() == 0) {
    for (auto _ : state) {
      any_wants_more(comm, true);
      state.SetIterationTime(turn(comm, operation));
    }
  }
  while (any_wants_more(comm, false)) turn(comm, operation);
}

void measure(benchmark::State& state, Hop hop, Preparation prepare) {
  const std::int64_t bytes = state.range(0);
  try {
    launch("threads", {.ranks = kRanks, .hop = hop},
           [&](const Communicator& comm) { run_rank(state, comm, prepare(comm, bytes)); });
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
  state.counters["algbw"] =  // bytes that one rank sends / time
      benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate,
                         benchmark::Counter::kIs1000);
}

void add(const char* name, Hop hop, Preparation prepare) {
  benchmark::RegisterBenchmark(name, measure, hop, prepare)
      ->RangeMultiplier(16)
      ->Range(64, 64 << 20)
      ->UseManualTime()
      ->MinTime(0.02);  // of the operation alone; a turn costs several times that for small sizes
}

}  // namespace
}  // namespace ringspan::comm

int main(int argc, char** argv) {
  using namespace ringspan::comm;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add("ring_hop/copy", Hop::copy, ring_hop);
  add("ring_hop/reference", Hop::reference, ring_hop);
  add("all_to_all/direct", Hop::copy, direct_all_to_all);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
