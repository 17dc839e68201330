// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/backward_seconds.hpp"

#include <algorithm>
#include <vector>

#include "attention/closed_forms/gpu_seconds.hpp"
#include "attention/closed_forms/ring_hops.hpp"
#include "attention/closed_forms/ring_seconds.hpp"
#include "attention/schedules/schedule_choice.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

class RingBackward {
 public:
  RingBackward(const Problem& problem, LayoutKind layout, const comm::Cluster& cluster,
               const ModelledLibrary& library, int ranks)
      : cluster_(cluster),
        gpu_(problem, cluster, library),
        ring_(problem, layout, ranks),
        ranks_(ranks) {}

  double seconds() const {
    require_room();
    std::vector<std::vector<RingStepSeconds>> steps;
    for (int rank = 0; rank < ranks_; ++rank) steps.push_back(of_rank(rank));
    const std::vector<double> ended = ring_seconds(steps, cluster_.fabric.messages.kernel_slowdown);
    return *std::max_element(ended.begin(), ended.end());
  }

 private:
  /// Of a block of keys and values, and of its gradient, until the last rank that adds to it.
  bool moves_on(int owner, int step) const { return step < ring_.hops(owner); }
  /// The gradient alone, from that rank.
  bool goes_home(int owner, int step) const { return step > 0 && step == ring_.hops(owner); }

  /// Into a port come a block, and a gradient that comes by; and sometimes this rank's own.
  void require_room() const {
    int at_once = ranks_ > 1 ? 2 : 0;
    for (int rank = 0; rank < ranks_; ++rank)
      for (int step = 1; step < ranks_; ++step)
        if (goes_home(rank, step) && moves_on(ring_.here(rank, step + 1), step)) at_once = 3;
    double most = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      for (const double bytes : {kv(rank), gradient(rank)})
        most = std::max(most, comm::model_message(cluster_, {ranks_, true}, false,
                                                  static_cast<std::int64_t>(bytes))
                                  .most_bytes_per_second);
    const double port = cluster_.fabric.gpu_bytes_per_second;
    RINGSPAN_REQUIRE(at_once * most <= port, "backward_seconds: ", at_once,
                     " messages at once of up to ", most, " bytes/s each share a port of ", port,
                     "; there is no closed form for that");
  }

  double kv(int owner) const { return static_cast<double>(ring_.tokens(owner)) * gpu_.kv_bytes(); }
  double gradient(int owner) const {
    return static_cast<double>(ring_.tokens(owner)) * gpu_.kv_gradient_bytes();
  }
  double message(double bytes) const { return message_seconds(cluster_, ranks_, 1, bytes); }

  /// The gradient that has come home becomes the result.
  double delivered(int rank) const { return gpu_.moved(gradient(rank) + kv(rank)); }

  std::vector<RingStepSeconds> of_rank(int rank) const {
    const auto own = static_cast<double>(ring_.tokens(rank));
    const double dq = own * gpu_.q_gradient_bytes();
    const double load = ring_.hops(rank) > 0 ? gpu_.copied(kv(rank)) : 0;
    std::vector<RingStepSeconds> steps{
        {.work = gpu_.delta(ring_.tokens(rank)) + gpu_.moved(dq + kv(rank)) + load}};
    for (int step = 0; step < ranks_; ++step) steps.push_back(of_step(rank, step));
    // All gradients are home, and dq is complete.
    const double last = goes_home(rank, ranks_ - 1) ? delivered(rank) : 0;
    steps.push_back({.adding = last + gpu_.moved(dq + own * gpu_.q_bytes())});
    return steps;
  }

  RingStepSeconds of_step(int rank, int step) const {
    const int here = ring_.here(rank, step);
    RingStepSeconds seconds;
    const std::vector<Tile> tiles = ring_.seen(rank, here);
    if (!tiles.empty())  // this rank's share begins as zeros
      seconds.work = gpu_.moved(gradient(here)) + gpu_.differentiate(tiles, ring_.tokens(here));
    if (moves_on(here, step)) seconds.kv = message(kv(here));

    const bool came = step > 0 && moves_on(here, step - 1);
    if (goes_home(rank, step - 1)) seconds.adding += delivered(rank);
    if (came && !tiles.empty()) seconds.adding += gpu_.moved(3 * gradient(here));
    if (moves_on(here, step) || goes_home(here, step)) {
      seconds.gradient = message(gradient(here));
      seconds.gradient_to = goes_home(here, step) ? here : (rank + 1) % ranks_;
    } else if (step == 0 && !tiles.empty()) {  // nobody else sees it
      seconds.adding += delivered(rank);
    }
    return seconds;
  }

  const comm::Cluster& cluster_;
  const GpuSeconds gpu_;
  const RingHops ring_;
  const int ranks_;
};

}  // namespace

double backward_seconds(std::string_view schedule, const Problem& problem,
                        const comm::Cluster& cluster, const ModelledLibrary& library, int ranks) {
  RINGSPAN_REQUIRE(
      ranks <= cluster.gpus_per_node && cluster.fabric.gpus_per_switch == cluster.gpus_per_node,
      "backward_seconds: ", ranks, " ranks must be on one switch");
  const ScheduleChoice choice = choose_schedule(schedule, {});
  RINGSPAN_REQUIRE(choice.family == ScheduleChoice::Family::ring,
                   "backward_seconds: no closed form for ", schedule,
                   "; known are ring, striped, zigzag");
  RINGSPAN_REQUIRE(element_bytes(problem.shape.dtype) == 2 && !problem.sinks,
                   "backward_seconds: only known in 16 bits, without sinks");
  return RingBackward(problem, choice.layout, cluster, library, ranks).seconds();
}

}  // namespace ringspan::attention
