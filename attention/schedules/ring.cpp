// SPDX-License-Identifier: Apache-2.0
// Ring attention and, with other layouts, striped and zigzag attention; with an inner and an outer
// ring, LoongTrain's. Queries stay where they are. Each rank's keys and values travel around the
// ring, one hop per step, while the kernel works on the block that is already here. The layout
// decides what the mask leaves of each pair of blocks.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/block_ring.hpp"
#include "attention/schedules/double_gradient_ring.hpp"
#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/query_block.hpp"
#include "attention/schedules/ring_levels.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "attention/schedules/usp_position.hpp"

namespace ringspan::attention {
namespace {

std::vector<GradientRing::Move> gradient_moves(const std::vector<RingStep>& steps) {
  std::vector<GradientRing::Move> moves;
  for (const RingStep& step : steps) moves.push_back(step.gradient);
  return moves;
}

class RingPlan final : public Plan {
 public:
  /// `q`: of a backward pass in which the query side travels; none if keys and values do.
  RingPlan(const RingLevels& levels, Kernels& kernels, ShardContract contract, RingSteps kv,
           std::optional<RingSteps> q)
      : levels_(levels),
        kernels_(kernels),
        queries_travel_(q.has_value()),
        gradient_turns_(q ? q->turns : kv.turns),
        largest_(kv.largest),
        queries_(levels.all, kernels, std::move(contract)),
        kv_(levels, KvFormat{shape(), shape().dtype}, std::move(kv)),
        q_steps_(std::move(q)) {}

  std::unique_ptr<Saved> make_saved() override {
    if (!gradients_) reserve_backward();
    using Dq = StationaryQueries::Dq;
    return queries_.make_saved(*this, queries_travel_ ? Dq::travels : Dq::stays);
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    load(inputs);
    for (const RingStep& step : kv_.steps()) {
      kv_.start();                                        // the next block moves ...
      queries_.attend(in_use(step, inputs), step.tiles);  // ... while the one here is in use
      kv_.finish();
    }
    queries_.end_forward();
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    queries_travel_ ? move_queries(inputs, gradients) : move_kv(inputs, gradients);
    queries_.end_backward();
  }

 private:
  // The same loop. The gradient of a block follows the block one step behind it, gains a share at
  // every rank that has one, and comes home when the last of them has added it.
  template <typename Format, typename Differentiate>
  void travel(BlockRing<Format>& blocks, const Differentiate& differentiate) {
    for (const RingStep& step : blocks.steps()) {
      blocks.start();             // the next block moves, and the gradient of this one
      if (!step.tiles.empty()) {  // arrives, while this rank's share of it is computed
        differentiate(step, gradients_->share(step.tokens));
      }
      gradients_->follow(step.turn, step.gradient);
      blocks.finish();
    }
    gradients_->finish();
  }

  void move_kv(const Inputs& inputs, const Gradients& gradients) {
    gradients_->begin({gradients.dk, gradients.dv});
    load(inputs);
    travel(kv_, [&](const RingStep& step, const GradientBlock& share) {
      queries_.differentiate(in_use(step, inputs), step.tiles, {share[0], share[1]});
    });
  }

  // BurstAttention's (arXiv:2403.09347): keys, values and their gradients stay.
  void move_queries(const Inputs& inputs, const Gradients& gradients) {
    gradients_->begin({gradients.dq});
    dk_.begin(kernels_, gradients.dk);
    dv_.begin(kernels_, gradients.dv);
    BackwardBlock block = queries_.backward_block();
    if (const auto own = q_->begin()) {
      kernels_.copy(block.q, own->q);
      kernels_.copy(block.d_out, own->d_out);
      kernels_.copy(block.lse, own->lse);
      kernels_.copy(block.delta, own->delta);
    }
    block.k = inputs.k;
    block.v = inputs.v;
    travel(*q_, [&](const RingStep& step, const GradientBlock& share) {
      if (!q_->own(step)) {
        const QueryView visiting = q_->block(step);
        block.q = visiting.q;
        block.d_out = visiting.d_out;
        block.lse = visiting.lse;
        block.delta = visiting.delta;
      }
      block.tiles = step.tiles;
      kernels_.backward(block, share[0], dk_.view(), dv_.view());
    });
    dk_.end(kernels_);
    dv_.end(kernels_);
  }

  void reserve_backward() {
    gradients_.emplace(
        levels_.inner, levels_.outer, kernels_,
        queries_travel_ ? GradientFormat::of_q(shape()) : GradientFormat::of_kv(shape()), largest_,
        gradient_moves(queries_travel_ ? q_steps_->steps : kv_.steps()), gradient_turns_);
    if (!queries_travel_) return;
    comm::Device& device = levels_.all.device();
    q_.emplace(levels_, QueryFormat{shape()}, std::move(*q_steps_));
    dk_.reserve(device, shape(), queries_.tokens(), shape().kv_heads, shape().head_dim);
    dv_.reserve(device, shape(), queries_.tokens(), shape().kv_heads, shape().value_dim);
  }

  const Shape& shape() const { return queries_.shape(); }

  // This rank's own keys and values become the first block that moves.
  void load(const Inputs& inputs) {
    if (const auto own = kv_.begin()) {
      kernels_.copy(inputs.k, own->k);
      kernels_.copy(inputs.v, own->v);
    }
  }

  KvView in_use(const RingStep& step, const Inputs& inputs) const {
    return kv_.own(step) ? KvView{inputs.k, inputs.v} : kv_.block(step);
  }

  RingLevels levels_;
  Kernels& kernels_;
  bool queries_travel_;  // in the backward pass
  std::vector<DoubleGradientRing::Turn> gradient_turns_;
  std::int64_t largest_;  // block, in tokens
  StationaryQueries queries_;
  BlockRing<KvFormat> kv_;
  std::optional<RingSteps> q_steps_;  // until they are in use

  // Once there is a Saved.
  std::optional<DoubleGradientRing> gradients_;
  std::optional<BlockRing<QueryFormat>> q_;
  GradientSum dk_, dv_;  // where the queries travel
};

class Ring final : public Schedule {
 public:
  Ring(RingLevels levels, Kernels& kernels, LayoutKind layout, BackwardForm backward)
      : levels_(std::move(levels)), kernels_(kernels), layout_(layout), backward_(backward) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, levels_.all.size(), levels_.all.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(layout_, problem, levels_.all.size());
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    const RingPlace place = levels_.place();
    RingSteps kv = ring_steps(problem, layout_, place, Travelling::kv);
    std::optional<RingSteps> q;
    if (backward_ != BackwardForm::kv) q = ring_steps(problem, layout_, place, Travelling::q);
    if (backward_ == BackwardForm::automatic && q->backward_bytes >= kv.backward_bytes) q.reset();
    return std::make_unique<RingPlan>(levels_, kernels_,
                                      layout_contract(problem, layout_, place.ranks, place.rank),
                                      std::move(kv), std::move(q));
  }

 private:
  RingLevels levels_;
  Kernels& kernels_;
  LayoutKind layout_;
  BackwardForm backward_;
};

}  // namespace

std::unique_ptr<Schedule> make_ring(const RingLevels& levels, Kernels& kernels, LayoutKind layout,
                                    BackwardForm backward) {
  return std::make_unique<Ring>(levels, kernels, layout, backward);
}

std::unique_ptr<Schedule> make_ring(comm::Communicator comm, Kernels& kernels, LayoutKind layout,
                                    BackwardForm backward) {
  return make_ring(one_ring(comm), kernels, layout, backward);
}

std::unique_ptr<Schedule> make_double_ring(comm::Communicator comm, Kernels& kernels,
                                           LayoutKind layout, int inner_ring,
                                           BackwardForm backward) {
  const RingOrder order = ring_order(inner_ring, places(comm));
  return make_ring(two_rings(comm, order), kernels, layout, backward);
}

}  // namespace ringspan::attention
