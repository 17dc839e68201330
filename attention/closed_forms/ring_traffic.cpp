// SPDX-License-Identifier: Apache-2.0
// A rank sends on every block that is here until its last hop, and in the backward pass also its
// gradient, which from there goes straight home: one message more on each of the two rings on which
// it moves at all. With P ranks in N inner rings of w, a full mask and even sizes that is, of
// blocks of B bytes and gradients of A,
//   forward   (N w - 1) B, (N - 1) B of it outwards
//   backward  the same, and (N w + N) A, of which N A outwards (with one inner ring w A)
// A bidirectional ring sends P - 1 blocks too, P / 2 of them forwards, and P + 1 gradients; of two
// ranks, P gradients, since there is only one way.
// B and A are those of K and V, or of q, d_out, lse, delta and of dq (BurstAttention,
// arXiv:2403.09347).
#include "attention/closed_forms/ring_traffic.hpp"

#include <iterator>

#include "attention/closed_forms/visibility.hpp"

namespace ringspan::attention {
namespace {

/// Bytes of one token in a block, and in its gradient.
struct Row {
  std::int64_t block, gradient;
};

Row kv_row(const Shape& shape) {
  const std::int64_t elements = shape.batch * shape.kv_heads * (shape.head_dim + shape.value_dim);
  return {elements * element_bytes(shape.dtype), elements * element_bytes(accumulator(shape))};
}

Row q_row(const Shape& shape) {
  const std::int64_t rows = shape.batch * shape.heads;
  const std::int64_t e = element_bytes(shape.dtype), a = element_bytes(accumulator(shape.dtype));
  return {rows * ((shape.head_dim + shape.value_dim) * e + 2 * a),
          rows * shape.head_dim * element_bytes(accumulator(shape))};
}

/// Of all ranks in a backward pass.
std::int64_t backward_bytes(const std::vector<RingBlock>& blocks, const Row& row) {
  std::int64_t sum = 0;
  for (const RingBlock& block : blocks) {
    std::int64_t moves = std::ssize(block.turns) - 1, homes = moves > 0;
    for (const int hops : block.turns) moves += hops, homes += hops > 0;
    sum += block.tokens * (moves * row.block + (moves + homes) * row.gradient);
  }
  return sum;
}

/// On one of the two rings, where it makes so many hops: a block that is so many places from home.
struct Trip {
  int at, hops;
  int next, home;  // ranks of the whole ring

  Traffic sent(const Group& ring, std::int64_t block, std::int64_t gradient) const {
    Traffic traffic;
    if (at < hops) traffic += ring.message(next, block);
    if (hops > 0 && at <= hops) traffic += ring.message(at < hops ? next : home, gradient);
    return traffic;
  }
};

}  // namespace

RingTraffic::RingTraffic(const Problem& problem, LayoutKind layout, int ranks, int inner_ranks,
                         BackwardForm backward)
    : inner_ranks_(inner_ranks),
      backward_(backward),
      kv_(ring_blocks(problem, layout, ranks, inner_ranks)) {
  if (backward == BackwardForm::kv) return;
  q_ = ring_blocks(problem, layout, ranks, inner_ranks, Travelling::q);
}

Traffic RingTraffic::pass(const std::vector<RingBlock>& blocks, std::int64_t block_row,
                          std::int64_t gradient_row, const Group& ring) const {
  const int inner = inner_ranks_, nodes = ring.size() / inner;
  const int node = ring.rank / inner, place = ring.rank % inner;
  const auto rank = [inner](int in_node, int in_place) { return in_node * inner + in_place; };
  Traffic traffic;
  for (int owner = 0; owner < ring.size(); ++owner) {
    const auto& [tokens, turns] = blocks[owner];
    const int home_node = owner / inner, home_place = owner % inner;
    const int turn = (node - home_node + nodes) % nodes;
    if (turn >= std::ssize(turns)) continue;
    const std::int64_t block = tokens * block_row, gradient = tokens * gradient_row;
    const Trip inside{(place - home_place + inner) % inner, turns[turn],
                      rank(node, (place + 1) % inner), rank(node, home_place)};
    traffic += inside.sent(ring, block, gradient);
    if (inside.at > 0) continue;  // a block goes outwards at the place of its owner
    const Trip outside{turn, static_cast<int>(turns.size()) - 1, rank((node + 1) % nodes, place),
                       rank(home_node, place)};
    traffic += outside.sent(ring, block, gradient);
  }
  return traffic;
}

Traffic RingTraffic::forward(const Shape& shape, const Group& ring) const {
  return pass(kv_, kv_row(shape).block, 0, ring);
}

Traffic RingTraffic::backward(const Shape& shape, const Group& ring) const {
  const Row kv = kv_row(shape), q = q_row(shape);
  const bool q_travels =
      backward_ == BackwardForm::q ||
      (backward_ == BackwardForm::automatic && backward_bytes(q_, q) < backward_bytes(kv_, kv));
  const Row& row = q_travels ? q : kv;
  return pass(q_travels ? q_ : kv_, row.block, row.gradient, ring);
}

BidirectionalTraffic::BidirectionalTraffic(const Problem& problem, LayoutKind layout, int ranks) {
  const Visibility visibility(problem, layout, ranks);
  for (int owner = 0; owner < ranks; ++owner) {
    Block block{visibility.tokens(owner), ranks / 2, (ranks - 1) / 2};
    while (block.front > 0 && !visibility.sees((owner + block.front) % ranks, owner)) --block.front;
    while (block.back > 0 && !visibility.sees((owner - block.back + ranks) % ranks, owner))
      --block.back;
    blocks_.push_back(block);
  }
}

Traffic BidirectionalTraffic::pass(std::int64_t block_row, std::int64_t gradient_row,
                                   const Group& ring) const {
  const int ranks = ring.size(), prev = (ring.rank - 1 + ranks) % ranks;
  Traffic traffic;
  for (int owner = 0; owner < ranks; ++owner) {
    const auto& [tokens, front, back] = blocks_[owner];
    const std::int64_t block = tokens * block_row, gradient = tokens * gradient_row;
    const int behind = (ring.rank - owner + ranks) % ranks, before = (ranks - behind) % ranks;
    traffic += Trip{behind, front, ring.next(), owner}.sent(ring, block, gradient);
    traffic += Trip{before, back, prev, owner}.sent(ring, block, gradient);
  }
  return traffic;
}

Traffic BidirectionalTraffic::forward(const Shape& shape, const Group& ring) const {
  return pass(kv_row(shape).block, 0, ring);
}

Traffic BidirectionalTraffic::backward(const Shape& shape, const Group& ring) const {
  const Row row = kv_row(shape);
  return pass(row.block, row.gradient, ring);
}

}  // namespace ringspan::attention
