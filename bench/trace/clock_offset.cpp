// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/clock_offset.hpp"

#include <cstring>
#include <limits>

#include "comm/batch.hpp"

namespace ringspan::bench {
namespace {

constexpr int kRoundTrips = 20;

/// Rank 0 answers a question of `rank` with its time; all others post nothing.
class RoundTrips {
 public:
  RoundTrips(const comm::Communicator& world, int rank)
      : world_(world), rank_(rank), value_(world.device().allocate_values(sizeof(double))) {}

  double offset() {
    double shortest = std::numeric_limits<double>::infinity(), offset = 0;
    for (int trip = 0; trip < kRoundTrips; ++trip) {
      const double asked = now(), there = time_of_first(), answered = now();
      if (answered - asked >= shortest) continue;
      shortest = answered - asked;
      offset = there - (asked + answered) / 2;
    }
    return offset;
  }

 private:
  double now() const { return world_.device().now(); }

  double time_of_first() {
    send(rank_, 0);
    const double time = now();
    if (world_.rank() == 0) std::memcpy(value_.data(), &time, sizeof time);
    send(0, rank_);
    double received = 0;
    std::memcpy(&received, value_.data(), sizeof received);
    return received;
  }

  void send(int from, int to) {
    comm::Batch batch;
    if (world_.rank() == from) batch.send(to, comm::whole(value_));
    if (world_.rank() == to) batch.receive(from, comm::whole(value_));
    std::move(batch).post(world_, "clock_offset").wait();
  }

  const comm::Communicator& world_;
  const int rank_;
  const comm::Buffer value_;
};

}  // namespace

double clock_offset(const comm::Communicator& world) {
  double own = 0;
  for (int rank = 1; rank < world.size(); ++rank) {
    if (world.place(rank).node == world.place(0).node) continue;
    const double offset = RoundTrips(world, rank).offset();
    if (rank == world.rank()) own = offset;
  }
  return own;
}

}  // namespace ringspan::bench
