// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/timing.hpp"

#include <algorithm>
#include <random>

#include "comm/collectives.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr double kBatchSeconds = 2e-3;  // ten times what leaving a barrier differs by, over TCP
constexpr double kVirtualBatchSeconds = 2e-4;  // exact, but simulating takes a while
constexpr int kMostRuns = 1000;                // in a batch

/// One of the primitives that take turns.
class Turn {
 public:
  Turn(const Setting& setting, const Primitive& primitive)
      : comm_(setting.comm), operation_(primitive.prepare(setting)) {
    timed_.primitive = &primitive;
    timed_.bytes = operation_.bytes;
    timed_.count = operation_.count;
    timed_.algorithm = operation_.algorithm;
    check();  // which also touches all memory
    once_ = seconds();
    for (int again = 0; again < 2 && !in_virtual_time(); ++again)
      once_ = std::min(once_, seconds());
  }

  /// As many runs as take a batch's seconds.
  double runs() const { return (in_virtual_time() ? kVirtualBatchSeconds : kBatchSeconds) / once_; }

  void batch(int runs) { timed_.batch = runs; }

  void take(bool counted) {
    const double taken = seconds();
    if (counted) timed_.seconds.push_back(taken);
  }

  void check() {
    if (in_virtual_time()) return operation_.run();  // there is no data
    timed_.wrong += comm::all_reduce(comm_, operation_.checked_run(), comm::Reduction::sum);
  }

  const Timed& timed() const { return timed_; }

 private:
  bool in_virtual_time() const { return comm_.device().cluster() != nullptr; }

  double seconds() const {
    comm::Device& device = comm_.device();
    comm::barrier(comm_);
    const double start = device.now();
    for (int run = 0; run < timed_.batch; ++run) operation_.run();
    device.synchronize(comm_.deadline());
    const double end = device.now();
    const auto latest = [&](double time) {
      return comm::all_reduce(comm_, time, comm::Reduction::max);
    };
    // Where all have one clock, it begins when the last has left the barrier.
    const double taken = in_virtual_time() ? latest(end) - latest(start) : latest(end - start);
    return taken / (timed_.batch * operation_.messages);
  }

  comm::Communicator comm_;
  Operation operation_;
  Timed timed_;
  double once_ = 0;  // seconds of one run
};

/// The same for all, or barriers would weigh more on some than on others.
int common_batch(const std::vector<Turn>& turns) {
  double runs = 1;
  for (const Turn& turn : turns) runs = std::max(runs, turn.runs());
  return static_cast<int>(std::min(runs, 1.0 * kMostRuns));
}

}  // namespace

std::vector<Timed> time_in_turns(const Setting& setting,
                                 std::span<const Primitive* const> primitives, int warmup,
                                 int repeats) {
  std::vector<Timed> result;
  std::vector<Turn> turns;
  for (const Primitive* primitive : primitives) {
    try {
      turns.emplace_back(setting, *primitive);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
      result.push_back({.primitive = primitive, .bytes = setting.bytes, .refusal = error.what()});
    }
  }
  const int batch = common_batch(turns);
  for (Turn& turn : turns) turn.batch(batch);
  // In an order of chance, alike on all ranks: what comes behind MPI_Alltoall may take a tenth
  // longer than what comes behind another one, and in fixed orders the same ones always would.
  std::mt19937 chance;
  std::vector<Turn*> order;
  for (Turn& turn : turns) order.push_back(&turn);
  for (int i = 0; i < warmup + repeats; ++i) {
    std::shuffle(order.begin(), order.end(), chance);
    for (Turn* const turn : order) turn->take(i >= warmup);
  }
  for (Turn& turn : turns) {
    turn.check();
    result.push_back(turn.timed());
  }
  return result;
}

}  // namespace ringspan::bench
