// SPDX-License-Identifier: Apache-2.0
#include "bench/run/bytes_needed.hpp"

#include <algorithm>
#include <optional>

#include "bench/ask/mask_text.hpp"

namespace ringspan::bench {
namespace {

/// Values per token of the tensors that a schedule has to do with, and the bytes of a value.
struct PerToken {
  explicit PerToken(const Point& point) {
    using attention::DType;
    const DType dtype = attention::dtype(point.dtype);
    element = static_cast<double>(attention::element_bytes(dtype));
    accumulator = static_cast<double>(attention::element_bytes(
        point.kernel == "reproducible" ? DType::reproducible : attention::accumulator(dtype)));
    heads = static_cast<double>(point.heads);
    q = heads * static_cast<double>(point.head_dim);
    out = heads * static_cast<double>(point.value_dim);
    const auto one_kv = static_cast<double>(point.head_dim) + static_cast<double>(point.value_dim);
    kv = static_cast<double>(point.kv_heads) * one_kv;
    copied_kv =
        static_cast<double>(std::max(point.kv_heads, std::min(point.ulysses_degree, point.heads))) *
        one_kv;
  }

  double element, accumulator;
  double heads, q, out, kv;
  double copied_kv;  // once for every rank that needs a copy of a KV head
};

/// A partial result; backward lse, delta and, where the dtype is narrow, dq.
double queries(const PerToken& token, bool backward) {
  const double dq = token.accumulator > token.element ? token.q : 0;
  return (token.out + 2 * token.heads + (backward ? 2 * token.heads + dq : 0)) * token.accumulator;
}

/// All ranks' blocks at every rank; the gradients of all, and one to receive into.
double gathered(const PerToken& token, double ranks, bool backward) {
  return token.kv * (ranks * token.element + (backward ? (ranks + 1) * token.accumulator : 0));
}

/// Blocks held and incoming; gradient blocks share, outgoing, incoming and coming home; all of them
/// once more where there are two rings. Where a hop goes by reference, nothing comes in beside what
/// moves. A rank alone only sums its gradients.
double ring(const PerToken& token, const Point& point) {
  const bool alone = point.ring_degree == 1, lends = point.hop == "reference";
  const bool both_ways = point.schedule == "bidirectional_ring";
  const bool inner = point.inner_ring > 1 && point.inner_ring < point.ring_degree;
  const int rings = !alone && (both_ways || inner) ? 2 : 1;
  const double blocks = rings * (alone ? 0 : lends ? 1 : 2);
  const double gradient_blocks = rings * (alone ? 1 : lends ? 2 : 4);
  const double forward = token.copied_kv * blocks * token.element;
  if (!point.has_backward()) return forward;

  const double sums = token.accumulator > token.element ? token.copied_kv * token.accumulator : 0;
  const double kv = token.copied_kv * gradient_blocks * token.accumulator + (both_ways ? sums : 0);
  const double q_side = (token.q + token.out) * token.element + 2 * token.heads * token.accumulator;
  const double q = blocks * q_side + gradient_blocks * token.q * token.accumulator + sums;
  return forward + (point.backward == "q" ? q : point.backward == "kv" ? kv : std::max(q, kv));
}

/// Blocks of keys and of queries that a rank lends, that it holds and that come in; results and
/// gradients of two steps on their way home, and those that come. An upper bound: no rank has all
/// of them under a causal mask.
double balanced(const PerToken& token, const Point& point) {
  const bool backward = point.has_backward(), lends = point.hop == "reference";
  const double sums =
      backward && token.accumulator > token.element ? token.kv * token.accumulator : 0;
  if (point.ranks == 1) return sums;
  const double lent = lends ? 1 : 3, returned = lends ? 2 : 3;
  double bytes = lent * (token.kv + token.q) * token.element +
                 returned * (token.out + 2 * token.heads) * token.accumulator;
  if (!backward) return bytes;
  bytes += lent * ((token.q + token.out) * token.element + 2 * token.heads * token.accumulator);
  return bytes + returned * (token.q + token.kv) * token.accumulator + sums;
}

/// The scores with all keys, backward their gradients, too; a block of keys or values, and one
/// incoming; the gradients of all of them at every rank, and what an all-reduce receives into.
double scores(const PerToken& token, const Point& point) {
  const auto ranks = static_cast<double>(point.ranks);
  const auto one = static_cast<double>(point.kv_heads * std::max(point.head_dim, point.value_dim));
  const double blocks = point.ranks == 1 ? 0 : point.hop == "reference" ? 1 : 2;
  const double matrix =
      token.heads * static_cast<double>(point.sequence_length) * token.accumulator;
  const double bytes = matrix + blocks * one * token.element;
  return point.has_backward() ? bytes + matrix + (ranks + 1) * one * token.accumulator : bytes;
}

/// What a rank sees of others' tokens and shows of its own to be seen, backward the former once
/// more and the gradients of both. The rank that has most stands for all. Documents may cut it.
double halo(const PerToken& token, const Point& point) {
  const attention::Mask mask = parse_mask_text(point.mask).mask;
  const bool backward = point.has_backward();
  const auto within = [](std::int64_t tokens, std::optional<std::int64_t> window) {
    return static_cast<double>(std::min(tokens, window.value_or(tokens)));
  };
  double most = 0;  // bytes, per value of a key and its value
  for (std::int64_t rank = 0; rank < point.ranks; ++rank) {
    const std::int64_t before = point.sequence_length * rank / point.ranks;
    const std::int64_t after =
        point.sequence_length - point.sequence_length * (rank + 1) / point.ranks;
    const double seen = within(before, mask.left) + within(after, mask.right);
    const double shown = within(after, mask.left) + within(before, mask.right);
    const double bytes = ((backward ? 2 : 1) * seen + shown) * token.element +
                         (backward ? (seen + shown) * token.accumulator : 0);
    most = std::max(most, bytes);
  }
  const double sums = backward && token.accumulator > token.element ? token.accumulator : 0;
  const double share =
      static_cast<double>(point.ranks) / static_cast<double>(point.sequence_length);
  return token.kv * (most * share + sums);
}

/// Rows of q, k and v on both sides of the all-to-all, which gradients use as well (as accumulators
/// where KV heads are copied); out and lse; backward q, k, v and out are kept.
double head_exchange(const PerToken& token, bool backward) {
  const double rows = token.q + token.copied_kv;
  const double row_element = token.copied_kv > token.kv ? token.accumulator : token.element;
  return 2 * rows * row_element + token.out * token.element + token.heads * 4 +
         (backward ? (rows + token.out) * token.element : 0);
}

/// What each exchange across nodes packs, and as much again that arrives to be passed on. An
/// automatic one is hierarchical where messages are too small to count here.
double staging(const PerToken& token, const Point& point) {
  if (point.all_to_all != "hierarchical") return 0;
  const std::int64_t ring_inside = point.placement == "ring_inner" ? point.ring_degree : 1;
  const std::int64_t in_node = std::max<std::int64_t>(point.ranks_per_node / ring_inside, 1);
  const double nodes = std::max(static_cast<double>(point.ulysses_degree) / in_node, 1.0);
  const double rows = token.q + token.copied_kv;
  const double gradients = token.copied_kv > token.kv ? token.accumulator : token.element;
  double exchanged = (rows + token.out) * token.element + token.heads * 4;
  if (point.has_backward()) {
    exchanged += (rows + 2 * token.out) * token.element + rows * gradients;
  }
  return 2 * (nodes - 1) / nodes * exchanged;
}

}  // namespace

double bytes_needed(const Point& point) {
  const PerToken token(point);
  const attention::ScheduleEntry& schedule = attention::schedule_entry(point.schedule);
  const bool backward = point.has_backward();
  double bytes = (backward ? 2 : 1) * (token.q + token.kv + token.out) * token.element;
  bytes += queries(token, backward);
  if (point.schedule == "all_gather_kv") {
    bytes += gathered(token, static_cast<double>(point.ranks), backward);
  } else if (point.schedule == "dist_flash") {
    bytes += balanced(token, point);
  } else if (point.schedule == "ring_self_attention") {
    bytes += scores(token, point);
  } else if (point.schedule == "halo") {
    bytes += halo(token, point);
  } else {
    bytes += ring(token, point);
  }
  if (schedule.takes_all_to_all && point.ulysses_degree > 1)
    bytes += head_exchange(token, backward) + staging(token, point);
  return bytes * static_cast<double>(point.batch) * static_cast<double>(point.sequence_length);
}

}  // namespace ringspan::bench
