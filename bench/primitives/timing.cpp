// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/timing.hpp"

#include <algorithm>

#include "comm/collectives.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr double kBatchSeconds = 2e-3;  // ten times what leaving a barrier differs by, over TCP
constexpr int kMostRuns = 1000;         // in a batch

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
    once_ = std::min({seconds(), seconds(), seconds()});
  }

  /// Of one run.
  double once() const { return once_; }

  void batch(int runs) { timed_.batch = runs; }

  void take(bool counted) {
    const double taken = seconds();
    if (counted) timed_.seconds.push_back(taken);
  }

  void check() {
    if (comm_.device().cluster()) return operation_.run();  // in virtual time there is no data
    timed_.wrong += comm::all_reduce(comm_, operation_.checked_run(), comm::Reduction::sum);
  }

  const Timed& timed() const { return timed_; }

 private:
  double seconds() const {
    comm::Device& device = comm_.device();
    comm::barrier(comm_);
    const double start = device.now();
    for (int run = 0; run < timed_.batch; ++run) operation_.run();
    device.synchronize(comm_.deadline());
    const double taken = device.now() - start;
    return comm::all_reduce(comm_, taken, comm::Reduction::max) /
           (timed_.batch * operation_.messages);
  }

  comm::Communicator comm_;
  Operation operation_;
  Timed timed_;
  double once_ = 0;
};

/// The same for all, or barriers would weigh more on some than on others.
int common_batch(const std::vector<Turn>& turns) {
  double runs = 1;
  for (const Turn& turn : turns) runs = std::max(runs, kBatchSeconds / turn.once());
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
  // Each iteration begins with another one, and every second one goes the other way round, so that
  // none always profits from the one before.
  const auto size = static_cast<int>(turns.size());
  for (int i = 0; i < warmup + repeats; ++i) {
    const int step = i % 2 == 0 ? 1 : size - 1;
    for (int k = 0; k < size; ++k) turns[(i + k * step) % size].take(i >= warmup);
  }
  for (Turn& turn : turns) {
    turn.check();
    result.push_back(turn.timed());
  }
  return result;
}

}  // namespace ringspan::bench
