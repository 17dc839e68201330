// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/forward_seconds.hpp"

#include <algorithm>
#include <vector>

#include "attention/closed_forms/gpu_seconds.hpp"
#include "attention/closed_forms/ring_hops.hpp"
#include "attention/closed_forms/ring_seconds.hpp"
#include "attention/schedules/schedule_choice.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

double ring_forward(const Problem& problem, LayoutKind layout, const comm::Cluster& cluster,
                    const ModelledLibrary& library, int ranks) {
  const GpuSeconds gpu(problem, cluster, library);
  const RingHops ring(problem, layout, ranks);
  const auto kv_bytes = [&](int owner) {
    return static_cast<double>(ring.tokens(owner)) * gpu.kv_bytes();
  };
  std::vector<std::vector<RingStepSeconds>> steps(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t own = ring.tokens(rank);
    const double load = ring.hops(rank) > 0 ? gpu.copied(kv_bytes(rank)) : 0;
    steps[rank].push_back({.work = gpu.begin(own) + load});
    for (int step = 0; step < ranks; ++step) {
      const int here = ring.here(rank, step);
      RingStepSeconds& seconds = steps[rank].emplace_back();
      seconds.work = gpu.attend(ring.seen(rank, here), own, ring.tokens(here), step == 0);
      if (step < ring.hops(here)) seconds.kv = message_seconds(cluster, ranks, 1, kv_bytes(here));
    }
    steps[rank].push_back({.work = gpu.end(own)});
  }
  const std::vector<double> ended = ring_seconds(steps, cluster.fabric.messages.kernel_slowdown);
  return *std::max_element(ended.begin(), ended.end());
}

/// Ulysses in groups of `degree` ranks around rings of the others. A group has the tokens of one
/// ring rank, so all rings take the same time; and as every group begins its ring at once, a group
/// that ends it later has its ports to itself, too.
double usp_forward(const Problem& problem, LayoutKind layout, const comm::Cluster& cluster,
                   const ModelledLibrary& library, int degree, int ring_degree) {
  const std::int64_t shared = problem.sequence.length / ring_degree, own = shared / degree;
  RINGSPAN_REQUIRE(problem.shape.kv_heads % degree == 0 &&
                       problem.sequence.length % (2 * ring_degree * degree) == 0,
                   "forward_seconds: a ulysses_degree of ", degree, " must divide ",
                   problem.shape.kv_heads, " KV heads, and twice all ranks, ",
                   2 * ring_degree * degree, ", ", problem.sequence.length, " tokens");
  Problem here = problem;
  here.shape.heads /= degree;
  here.shape.kv_heads /= degree;
  const double ring = ring_forward(here, layout, cluster, library, ring_degree);
  if (degree == 1) return ring;

  // What stays on the rank is copied while the rest is on its way.
  const GpuSeconds gpu(problem, cluster, library);
  const auto exchange = [&](double token_bytes) {
    const double part = static_cast<double>(own) * token_bytes / degree;
    const double messages = message_seconds(cluster, degree, degree - 1, part);
    const double slowdown = cluster.fabric.messages.kernel_slowdown;
    return std::max(messages, slowed_seconds(gpu.copied(part), messages, slowdown));
  };
  const auto copied = [&](double token_bytes) {
    return gpu.copied(static_cast<double>(own) * token_bytes);
  };
  const double qkv = gpu.q_bytes() + gpu.kv_bytes(), out = gpu.out_bytes();
  return copied(qkv) + exchange(qkv) + ring + exchange(out) + copied(out);
}

}  // namespace

double slowed_seconds(double kernel_seconds, double message_seconds, double slowdown) {
  return end_of_work(0, kernel_seconds, slowdown, {{0, message_seconds}});
}

double forward_seconds(std::string_view schedule, const Problem& problem,
                       const comm::Cluster& cluster, const ModelledLibrary& library, int ranks,
                       const ScheduleOptions& options) {
  using Family = ScheduleChoice::Family;
  RINGSPAN_REQUIRE(
      ranks <= cluster.gpus_per_node && cluster.fabric.gpus_per_switch == cluster.gpus_per_node,
      "forward_seconds: ", ranks, " ranks must be on one switch");
  const auto [family, layout, head_groups] = choose_schedule(schedule, options);
  RINGSPAN_REQUIRE(options.inner_ring == 0, "forward_seconds: no closed form for an inner ring");
  if (family == Family::ring) return ring_forward(problem, layout, cluster, library, ranks);
  RINGSPAN_REQUIRE((family == Family::ulysses || family == Family::usp) && head_groups == 1,
                   "forward_seconds: no closed form for ", schedule,
                   "; known are ring, striped, zigzag, ulysses, usp");
  const bool whole = family == Family::ulysses || options.ulysses_degree == 0;
  const int degree = whole ? ranks : options.ulysses_degree;
  RINGSPAN_REQUIRE(ranks % degree == 0, "forward_seconds: a ulysses_degree of ", degree,
                   " must divide ", ranks, " ranks");
  return usp_forward(problem, layout, cluster, library, degree, ranks / degree);
}

}  // namespace ringspan::attention
