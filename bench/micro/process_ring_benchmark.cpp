// SPDX-License-Identifier: Apache-2.0
// A ring between processes, by RingExchange and by a dozen lines written against MPI or UCX, and
// what copying the same bytes costs a core while the others do it too:
//   mpirun -np 2 process_ring_benchmark mpi|ucx [RATIO]
// Both are timed in pairs, one after the other; a block is judged by the median of the pairs'
// ratios, and the best of six blocks counts, because machines are noisy. With RATIO, the first
// block that reaches it is the last, and a size that stays below it means status 1. A time is the
// maximum over ranks.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/micro/ring_by_hand.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::bench {
namespace {

constexpr int kPairs = 15, kBlocks = 6;
constexpr std::int64_t kSizes[] = {64 << 10, 1 << 20, 16 << 20};
constexpr std::int64_t kBytesPerTiming = 32 << 20;

struct Transport {
  std::string_view name;
  RingByHand by_hand;
};
constexpr Transport kTransports[] = {
#ifdef RINGSPAN_BENCH_MPI
    {"mpi", mpi_ring_by_hand},
#endif
#ifdef RINGSPAN_BENCH_UCX
    {"ucx", ucx_ring_by_hand},
#endif
};

double median(std::span<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The two rings and the copy, of one size, on one rank.
class Rivals {
 public:
  Rivals(const comm::Communicator& comm, RingByHand by_hand, std::int64_t bytes)
      : comm_(comm), bytes_(bytes), ring_(comm, bytes), by_hand_(by_hand(comm, bytes)) {
    std::memset(ring_.begin().data(), 1, static_cast<std::size_t>(bytes));
    from_.resize(static_cast<std::size_t>(bytes), std::byte{1});
    to_ = from_;
    pair(true);  // touches all memory and connects
  }

  /// The best of the medians: the bandwidth of RingExchange by that of the one by hand.
  double best_ratio(double enough) {
    double best = 0;
    for (int block = 0; block < kBlocks && best < enough; ++block) {
      std::array<double, kPairs> ratios;
      for (int i = 0; i < kPairs; ++i) ratios[i] = pair(i % 2 == 0);
      best = std::max(best, median(ratios));
    }
    return best;
  }

  /// Bytes per second that each rank sends, or copies.
  double ring_bandwidth() {
    return bandwidth([this] { hop(); });
  }
  double hand_bandwidth() { return bandwidth(by_hand_); }
  double copy_bandwidth() {
    return bandwidth([this] { std::memcpy(to_.data(), from_.data(), from_.size()); });
  }

 private:
  void hop() {
    ring_.start(bytes_, bytes_);
    ring_.finish();
  }

  /// Seconds of one run, the same on all ranks.
  double seconds(const std::function<void()>& run) {
    const auto runs = static_cast<int>(kBytesPerTiming / bytes_);
    comm::barrier(comm_);
    const double start = comm_.device().now();
    for (int i = 0; i < runs; ++i) run();
    return comm::all_reduce(comm_, comm_.device().now() - start, comm::Reduction::max) / runs;
  }

  double pair(bool ring_first) {
    const auto ring = [this] { return seconds([this] { hop(); }); };
    const double first = ring_first ? ring() : seconds(by_hand_);
    const double second = ring_first ? seconds(by_hand_) : ring();
    return ring_first ? second / first : first / second;
  }

  double bandwidth(const std::function<void()>& run) {
    std::array<double, kPairs> times;
    std::generate(times.begin(), times.end(), [&] { return seconds(run); });
    return static_cast<double>(bytes_) / median(times);
  }

  comm::Communicator comm_;
  std::int64_t bytes_;
  comm::RingExchange ring_;
  HopByHand by_hand_;
  std::vector<std::byte> from_, to_;
};

/// The least ratio of all sizes; prints a line for each.
double least_ratio(const comm::Communicator& comm, const Transport& transport, double enough) {
  double least = HUGE_VAL;
  for (const std::int64_t bytes : kSizes) {
    Rivals rivals(comm, transport.by_hand, bytes);
    const double ratio = rivals.best_ratio(enough);
    const double ring = rivals.ring_bandwidth() * 1e-9, hand = rivals.hand_bandwidth() * 1e-9;
    const double copy = rivals.copy_bandwidth() * 1e-9;
    least = std::min(least, ratio);
    if (comm.rank() != 0) continue;
    std::printf(
        "%-4s %9lld bytes: ring_exchange %6.2f GB/s, by hand %6.2f GB/s, ratio %.3f; %d "
        "copies at once %6.2f GB/s each, of which the ring has %.2f\n",
        transport.name.data(), static_cast<long long>(bytes), ring, hand, ratio, comm.size(), copy,
        ring / copy);
    std::fflush(stdout);
  }
  return least;
}

const Transport& transport(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTransports), std::end(kTransports),
                                   [&](const Transport& each) { return each.name == name; });
  RINGSPAN_REQUIRE(found != std::end(kTransports), "unknown transport '", name, "'; known are ",
                   name_list(kTransports, &Transport::name));
  return *found;
}

double number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  RINGSPAN_REQUIRE(error == std::errc() && end == text.data() + text.size() && value > 0,
                   "a ratio is a positive number, not '", text, "'");
  return value;
}

int run(std::span<char*> arguments) {
  RINGSPAN_REQUIRE(arguments.size() == 2 || arguments.size() == 3,
                   "usage: mpirun -np 2 process_ring_benchmark mpi|ucx [RATIO]");
  const Transport& chosen = transport(arguments[1]);
  const bool judged = arguments.size() == 3;
  const double enough = judged ? number(arguments[2]) : HUGE_VAL;
  comm::LaunchOptions options = comm::launch_options_from_environment();
  options.ranks = comm::backend(chosen.name).process(options.deadline).size;
  RINGSPAN_REQUIRE(options.ranks > 1, "start two processes or more: mpirun -np 2 ...");
  double least = 0;
  comm::launch(chosen.name, options,
               [&](const comm::Communicator& comm) { least = least_ratio(comm, chosen, enough); });
  if (!judged || least >= enough) return 0;
  std::printf("a ratio of %.3f is below %.3f\n", least, enough);
  return 1;
}

}  // namespace
}  // namespace ringspan::bench

int main(int argc, char** argv) {
  try {
    return ringspan::bench::run({argv, static_cast<std::size_t>(argc)});
  } catch (const ringspan::Error& error) {
    std::fprintf(stderr, "process_ring_benchmark: %s\n", error.what());
    return error.kind() == ringspan::ErrorKind::invalid_argument ? 2 : 1;
  }
}
