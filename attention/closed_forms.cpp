// SPDX-License-Identifier: Apache-2.0
// Bytes and messages from the sizes of the problem alone. For a full mask and even sizes (S tokens,
// H query and G KV heads, D = head_dim + value_dim, e bytes per element, a per accumulator):
//   ring           forward   (P-1)/P S G D e                    in P-1 messages
//                  backward  the same, and S G D a              in P-1 + P: one more hop, to go
//                  home; more forms of it are in closed_forms/ring_traffic.cpp
//   all_gather_kv  forward   (P-1)/P S G D e                    in P-1
//                  backward  the same, and (P-1)/P S G D a      in 2 (P-1)
//   ulysses        forward   (U-1)/U S/U (H + G') D e           in 2 (U-1), with G' = max(G, U)
//                  backward  the same; copied KV heads' gradients with a instead of e
//                  overlapped in N head groups: N times the messages
// as in the papers of Ring Attention, Llama 3 and DeepSpeed-Ulysses, but with K and V, or Q, K and
// V, in one message. Here they are sums over what each message carries, so that masks and uneven
// sizes count. Masks are judged by positions, not by tiles, so that each can check the other.
#include "attention/closed_forms.hpp"

#include <optional>
#include <vector>

#include "attention/closed_forms/dist_flash_traffic.hpp"
#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/closed_forms/halo_traffic.hpp"
#include "attention/closed_forms/ring_traffic.hpp"
#include "attention/closed_forms/ulysses_traffic.hpp"
#include "attention/closed_forms/usp_groups.hpp"
#include "attention/schedules/halo_parts.hpp"
#include "attention/schedules/head_split.hpp"
#include "attention/schedules/ring_order.hpp"
#include "attention/schedules/schedule_choice.hpp"
#include "attention/tile.hpp"
#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

enum class Pass { forward, backward };

/// K and V of some tokens, or their gradients.
std::int64_t kv_bytes(const Shape& shape, DType dtype, std::int64_t tokens) {
  return shape.batch * tokens * shape.kv_heads * (shape.head_dim + shape.value_dim) *
         element_bytes(dtype);
}

/// Ring reduce_scatter, which sends all parts but the own, then ring all_gather, which sends all
/// but the next rank's.
Traffic all_reduce_traffic(const Group& group, std::int64_t elements, std::int64_t element_bytes) {
  Traffic traffic;
  for (int part = 0; part < group.size(); ++part) {
    const Traffic sent = group.message(
        group.next(), split_evenly(elements, group.size(), part).count * element_bytes);
    if (part != group.rank) traffic += sent;
    if (part != group.next()) traffic += sent;
  }
  return traffic;
}

Traffic d_sinks_traffic(const Problem& problem, const Group& group) {
  if (!problem.sinks) return {};
  const DType dtype = accumulator(problem.shape);
  return all_reduce_traffic(group, problem.shape.heads, element_bytes(dtype));
}

Traffic all_gather_kv_traffic(Pass pass, const Problem& problem, LayoutKind layout,
                              const Group& ring) {
  const Shape& shape = problem.shape;
  const std::vector<Shard> shards = attention::shards(layout, problem.sequence, ring.size());
  Traffic traffic;
  for (int owner = 0; owner < ring.size(); ++owner) {
    const std::int64_t count = tokens(shards[owner]);
    if (owner != ring.next()) {
      traffic += ring.message(ring.next(), kv_bytes(shape, shape.dtype, count));
    }
    if (pass == Pass::backward && owner != ring.rank) {
      traffic += ring.message(ring.next(), kv_bytes(shape, accumulator(shape), count));
    }
  }
  if (pass == Pass::backward) traffic += d_sinks_traffic(problem, ring);
  return traffic;
}

/// 8 (P-1)/P S G d elements of S tokens in both passes, as the paper counts: two rings forward, and
/// backward two, and an all-reduce of the gradients of all keys, and one of all values.
Traffic ring_self_attention_traffic(Pass pass, const Problem& problem, LayoutKind layout,
                                    const Group& ring) {
  const Shape& shape = problem.shape;
  const std::vector<Shard> shards = attention::shards(layout, problem.sequence, ring.size());
  Traffic traffic;
  for (const std::int64_t dim : {shape.head_dim, shape.value_dim}) {
    const std::int64_t row = shape.batch * shape.kv_heads * dim;
    for (int owner = 0; owner < ring.size(); ++owner) {
      if (owner == ring.next()) continue;
      const std::int64_t elements = row * tokens(shards[owner]);
      traffic += ring.message(ring.next(), elements * element_bytes(shape.dtype));
    }
    if (pass == Pass::forward) continue;
    traffic += all_reduce_traffic(ring, row * problem.sequence.length,
                                  element_bytes(accumulator(shape.dtype)));
  }
  if (pass == Pass::backward) traffic += d_sinks_traffic(problem, ring);
  return traffic;
}

/// Each rank has d_sinks of its own heads, in fp32; ring all_gather.
Traffic gather_d_sinks_traffic(const Problem& problem, const Group& group) {
  const std::vector<HeadShare> shares = split_heads(problem.shape, group.size());
  Traffic traffic;
  for (int part = 0; part < group.size(); ++part) {
    if (part == group.next()) continue;
    traffic += group.message(group.next(), shares[part].heads.count * element_bytes(DType::f32));
  }
  return traffic;
}

/// How the ranks of one world share the traffic of a pass.
class PassTraffic {
 public:
  PassTraffic(Pass pass, std::string_view schedule, const ScheduleOptions& options,
              const Problem& problem, const comm::World& world, bool with_lse)
      : pass_(pass),
        choice_(choose_schedule(schedule, options)),
        options_(options),
        problem_(problem),
        world_(world),
        with_lse_(with_lse) {
    require_valid(problem);
    for (const comm::Place& place : world.places) nodes_.push_back(place.node);
    const std::vector<comm::Place> ring = groups(0).ring;
    const int size = static_cast<int>(ring.size());
    require_few_tiles(choice_.layout, problem.sequence, problem.mask, size);
    if (choice_.family == ScheduleChoice::Family::halo) {
      require_window(problem.mask);
      return;
    }
    if (choice_.family == ScheduleChoice::Family::all_gather_kv ||
        choice_.family == ScheduleChoice::Family::ring_self_attention) {
      return;
    }
    if (choice_.family == ScheduleChoice::Family::dist_flash) {
      visibility_.emplace(problem, choice_.layout, ranks());
      return;
    }
    if (choice_.family == ScheduleChoice::Family::bidirectional_ring) {
      bidirectional_.emplace(problem, choice_.layout, ranks());
      return;
    }
    ring_.emplace(problem, choice_.layout, size, has_two_rings() ? order(ring).inner_ranks : size,
                  pass == Pass::backward ? options.backward : BackwardForm::kv);
  }

  int ranks() const { return static_cast<int>(nodes_.size()); }

  Traffic of(int rank) const {
    RINGSPAN_REQUIRE(rank >= 0 && rank < ranks(), "traffic of rank ", rank, " of ", ranks(),
                     ": a rank is at least 0 and less than their number");
    const Group all{nodes_, rank, world_.costs_among(nodes_)};
    switch (choice_.family) {
      case ScheduleChoice::Family::all_gather_kv:
        return all_gather_kv_traffic(pass_, problem_, choice_.layout, all);
      case ScheduleChoice::Family::ring_self_attention:
        return ring_self_attention_traffic(pass_, problem_, choice_.layout, all);
      case ScheduleChoice::Family::dist_flash: return dist_flash(all);
      case ScheduleChoice::Family::bidirectional_ring: return bidirectional_ring(all);
      case ScheduleChoice::Family::halo: return halo(all);
      case ScheduleChoice::Family::ring:
      case ScheduleChoice::Family::double_ring:
      case ScheduleChoice::Family::ulysses:
      case ScheduleChoice::Family::usp: break;
    }
    return usp(groups(rank));
  }

 private:
  /// A ring is usp whose ulysses groups have one rank, ulysses is usp whose rings have.
  UspGroups groups(int rank) const {
    const std::vector<comm::Place>& places = world_.places;
    switch (choice_.family) {
      case ScheduleChoice::Family::usp: return usp_groups(options_, world_, rank);
      case ScheduleChoice::Family::ulysses:
        return {{nodes_, rank, world_.costs_among(nodes_)}, {places[rank]}, 0};
      default: return {{{nodes_[rank]}}, places, rank};
    }
  }

  bool has_two_rings() const {
    return choice_.family == ScheduleChoice::Family::double_ring || options_.inner_ring > 0;
  }

  RingOrder order(const std::vector<comm::Place>& ring) const {
    return choice_.family == ScheduleChoice::Family::usp ? usp_ring_order(options_.inner_ring, ring)
                                                         : ring_order(options_.inner_ring, ring);
  }

  Group ring_group(const UspGroups& groups) const {
    Group ring{{}, groups.ring_rank};
    for (const comm::Place& place : groups.ring) ring.nodes.push_back(place.node);
    if (!has_two_rings()) return ring;
    const std::vector<int> ranks = order(groups.ring).ranks;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
      ring.nodes[place] = groups.ring[ranks[place]].node;
      if (ranks[place] == groups.ring_rank) ring.rank = static_cast<int>(place);
    }
    return ring;
  }

  Traffic bidirectional_ring(const Group& all) const {
    if (pass_ == Pass::forward) return bidirectional_->forward(problem_.shape, all);
    Traffic traffic = bidirectional_->backward(problem_.shape, all);
    return traffic += d_sinks_traffic(problem_, all);
  }

  Traffic halo(const Group& all) const {
    if (pass_ == Pass::forward) return halo_forward_traffic(problem_, all);
    Traffic traffic = halo_backward_traffic(problem_, all);
    return traffic += d_sinks_traffic(problem_, all);
  }

  Traffic dist_flash(const Group& all) const {
    if (pass_ == Pass::forward)
      return dist_flash_forward_traffic(problem_.shape, *visibility_, all);
    Traffic traffic = dist_flash_backward_traffic(problem_.shape, *visibility_, all);
    return traffic += d_sinks_traffic(problem_, all);
  }

  Traffic usp(const UspGroups& groups) const {
    const Group& ulysses = groups.ulysses;
    const Group ring = ring_group(groups);
    if (ulysses.size() == 1) return ring_pass(problem_, ring);
    const bool forward = pass_ == Pass::forward;
    const UlyssesExchanges exchanges{forward, options_.all_to_all, choice_.head_groups, with_lse_,
                                     options_.resends};
    Traffic traffic = ulysses_traffic(exchanges, problem_.shape, ring_->tokens(ring.rank), ulysses);
    const auto heads = grouped_heads(problem_.shape, ulysses.size(), choice_.head_groups);
    for (const HeadShare& group : heads[ulysses.rank]) {  // each goes around the ring by itself
      traffic += ring_pass(with_heads(problem_, group), ring);
    }
    if (!forward && problem_.sinks) traffic += gather_d_sinks_traffic(problem_, ulysses);
    return traffic;
  }

  Traffic ring_pass(const Problem& problem, const Group& ring) const {
    if (pass_ == Pass::forward) return ring_->forward(problem.shape, ring);
    Traffic traffic = ring_->backward(problem.shape, ring);
    return traffic += d_sinks_traffic(problem, ring);
  }

  Pass pass_;
  ScheduleChoice choice_;
  const ScheduleOptions& options_;
  const Problem& problem_;
  const comm::World& world_;
  bool with_lse_;
  std::vector<int> nodes_;  // [rank]
  std::optional<BidirectionalTraffic> bidirectional_;
  std::optional<RingTraffic> ring_;       // of one ring; all rings are alike
  std::optional<Visibility> visibility_;  // of dist_flash
};

std::vector<Traffic> of_all(const PassTraffic& pass) {
  std::vector<Traffic> traffic;
  for (int rank = 0; rank < pass.ranks(); ++rank) traffic.push_back(pass.of(rank));
  return traffic;
}

}  // namespace

Traffic forward_traffic(std::string_view schedule, const ScheduleOptions& options,
                        const Problem& problem, const comm::World& world, int rank, bool with_lse) {
  return PassTraffic(Pass::forward, schedule, options, problem, world, with_lse).of(rank);
}

Traffic backward_traffic(std::string_view schedule, const ScheduleOptions& options,
                         const Problem& problem, const comm::World& world, int rank) {
  return PassTraffic(Pass::backward, schedule, options, problem, world, false).of(rank);
}

std::vector<Traffic> forward_traffic(std::string_view schedule, const ScheduleOptions& options,
                                     const Problem& problem, const comm::World& world) {
  return of_all(PassTraffic(Pass::forward, schedule, options, problem, world, false));
}

std::vector<Traffic> backward_traffic(std::string_view schedule, const ScheduleOptions& options,
                                      const Problem& problem, const comm::World& world) {
  return of_all(PassTraffic(Pass::backward, schedule, options, problem, world, false));
}

}  // namespace ringspan::attention
