// SPDX-License-Identifier: Apache-2.0
#include "attention/schedule.hpp"

#include <cmath>
#include <utility>

#include "attention/schedules/ring_levels.hpp"
#include "attention/schedules/schedule_choice.hpp"
#include "attention/schedules/usp_position.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

void require_valid(const Shape& shape) {
  const auto require_positive = [](std::string_view what, std::int64_t value) {
    RINGSPAN_REQUIRE(value >= 1, what, " is ", value, "; it must be at least 1");
  };
  require_positive("batch", shape.batch);
  require_positive("heads", shape.heads);
  require_positive("kv_heads", shape.kv_heads);
  require_positive("head_dim", shape.head_dim);
  require_positive("value_dim", shape.value_dim);
  RINGSPAN_REQUIRE(shape.heads % shape.kv_heads == 0, "kv_heads is ", shape.kv_heads,
                   ", which does not divide the ", shape.heads, " heads");
}

/// Twice the bytes of q and v in fp64 is more than any tensor or message that a schedule makes.
void require_addressable(const Problem& problem) {
  const Shape& shape = problem.shape;
  std::int64_t bytes = 2 * element_bytes(DType::f64), dims = 0;
  bool wraps = __builtin_add_overflow(shape.head_dim, shape.value_dim, &dims);
  for (const std::int64_t factor : {shape.batch, problem.sequence.length, shape.heads, dims}) {
    wraps = wraps || __builtin_mul_overflow(bytes, factor, &bytes);
  }
  RINGSPAN_REQUIRE(!wraps, "batch ", shape.batch, " x length ", problem.sequence.length,
                   " x heads ", shape.heads, " x dimensions ", shape.head_dim, " + ",
                   shape.value_dim, " is more than 64 bits of bytes");
}

void require_valid(const Mask& mask) {
  const auto require_bound = [](std::string_view what, const std::optional<std::int64_t>& bound) {
    RINGSPAN_REQUIRE(bound.value_or(0) >= 0, "mask: ", what, " is ", *bound,
                     "; it must be at least 0, so that every token sees itself");
  };
  require_bound("left", mask.left);
  require_bound("right", mask.right);
}

std::unique_ptr<Schedule> make_usp(const comm::Communicator& comm, Kernels& kernels,
                                   const ScheduleChoice& choice, const ScheduleOptions& options) {
  const UspPosition at =
      usp_positions(options.ulysses_degree, options.placement, places(comm))[comm.rank()];
  const comm::Communicator ulysses = comm.split(at.ring_rank, at.ulysses_rank);
  const comm::Communicator ring = comm.split(at.ulysses_rank, at.ring_rank);
  const RingLevels levels = options.inner_ring == 0
                                ? one_ring(ring)
                                : two_rings(ring, usp_ring_order(options.inner_ring, places(ring)));
  return make_ulysses(ulysses, kernels, make_ring(levels, kernels, choice.layout, options.backward),
                      options.all_to_all, choice.head_groups, options.resends);
}

}  // namespace

std::string_view name(BackwardForm form) {
  switch (form) {
    case BackwardForm::kv: return "kv";
    case BackwardForm::q: return "q";
    case BackwardForm::automatic: return "automatic";
  }
  return "unknown";
}

BackwardForm backward_form(std::string_view text) {
  for (const BackwardForm known : {BackwardForm::kv, BackwardForm::q, BackwardForm::automatic}) {
    if (name(known) == text) return known;
  }
  RINGSPAN_REQUIRE(false, "unknown form of a backward pass '", text,
                   "'; known are kv, q, automatic");
  return BackwardForm::kv;
}

std::string_view name(Placement placement) {
  switch (placement) {
    case Placement::ulysses_inner: return "ulysses_inner";
    case Placement::ring_inner: return "ring_inner";
  }
  return "unknown";
}

Placement placement(std::string_view text) {
  for (const Placement known : {Placement::ulysses_inner, Placement::ring_inner}) {
    if (name(known) == text) return known;
  }
  RINGSPAN_REQUIRE(false, "unknown placement '", text, "'; known are ulysses_inner, ring_inner");
  return Placement::ulysses_inner;
}

void require_valid(const Problem& problem) {
  require_valid(problem.shape);
  require_valid(problem.sequence);
  require_valid(problem.mask);
  require_addressable(problem);
  // What kernels that compute in fp32 can hold, with room for the logits themselves.
  constexpr double kLargest = 1e30, kSmallest = 1e-30;
  const double scale = problem.softmax_scale.value_or(1), softcap = problem.softcap.value_or(1);
  RINGSPAN_REQUIRE(std::abs(scale) <= kLargest, "softmax_scale is ", scale,
                   "; its magnitude must be at most ", kLargest);
  RINGSPAN_REQUIRE(softcap >= kSmallest && softcap <= kLargest, "softcap is ", softcap,
                   "; it must be positive, from ", kSmallest, " to ", kLargest,
                   ", or unset for none");
}

std::unique_ptr<Schedule> make_schedule(std::string_view name, const comm::Communicator& comm,
                                        Kernels& kernels, const ScheduleOptions& options) {
  const ScheduleChoice choice = choose_schedule(name, options);
  const LayoutKind layout = choice.layout;
  switch (choice.family) {
    case ScheduleChoice::Family::ring: return make_ring(comm, kernels, layout, options.backward);
    case ScheduleChoice::Family::double_ring:
      return make_double_ring(comm, kernels, layout, options.inner_ring, options.backward);
    case ScheduleChoice::Family::bidirectional_ring:
      return make_bidirectional_ring(comm, kernels, layout);
    case ScheduleChoice::Family::all_gather_kv: return make_all_gather_kv(comm, kernels, layout);
    case ScheduleChoice::Family::dist_flash: return make_dist_flash(comm, kernels);
    case ScheduleChoice::Family::ring_self_attention:
      return make_ring_self_attention(comm, kernels, layout);
    case ScheduleChoice::Family::halo: return make_halo(comm, kernels);
    case ScheduleChoice::Family::usp: return make_usp(comm, kernels, choice, options);
    case ScheduleChoice::Family::ulysses: break;
  }
  const comm::Communicator alone = comm.split(comm.rank(), 0);
  return make_ulysses(comm, kernels, make_ring(alone, kernels, layout), options.all_to_all,
                      choice.head_groups, options.resends);
}

}  // namespace ringspan::attention
