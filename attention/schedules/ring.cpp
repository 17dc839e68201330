// SPDX-License-Identifier: Apache-2.0
// Ring attention and, with other layouts, striped and zigzag attention; with an inner and an outer
// ring, LoongTrain's. Queries stay where they are. Each rank's keys and values travel around the
// ring, one hop per step, while the kernel works on the block that is already here. The layout
// decides what the mask leaves of each pair of blocks.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/double_gradient_ring.hpp"
#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/query_block.hpp"
#include "attention/schedules/ring_levels.hpp"
#include "attention/schedules/ring_steps.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "comm/double_ring.hpp"

namespace ringspan::attention {
namespace {

std::int64_t largest_block(const std::vector<RingStep>& steps) {
  return std::max_element(steps.begin(), steps.end(),
                          [](const RingStep& a, const RingStep& b) { return a.tokens < b.tokens; })
      ->tokens;
}

std::vector<DoubleGradientRing::Step> gradient_steps(const std::vector<RingStep>& steps) {
  std::vector<DoubleGradientRing::Step> gradients;
  for (const RingStep& step : steps) gradients.push_back(step.gradient);
  return gradients;
}

/// Blocks of one format on their way. A rank uses its own block where the caller has it; what it
/// hands on is a copy.
template <typename Format>
class BlockRing {
 public:
  /// The steps outlive it.
  BlockRing(const RingLevels& levels, Format format, const std::vector<RingStep>& steps)
      : format_(std::move(format)),
        own_(steps.front()),
        ring_(levels.inner, levels.outer,
              steps.size() > 1 ? format_.bytes(largest_block(steps)) : 0, hops(steps)) {}

  /// This rank's own block, to be written, if anybody else needs it.
  auto begin() {
    std::byte* const data = ring_.begin().data();
    const bool moves = own_.hops.inner_hop.sent > 0 || own_.hops.outer_hop.sent > 0;
    return moves ? std::optional(format_.block(data, own_.tokens)) : std::nullopt;
  }
  void start() { ring_.start(); }
  auto block(const RingStep& step) const { return format_.view(ring_.block().data(), step.tokens); }
  void finish() { ring_.finish(); }

 private:
  static std::vector<comm::DoubleRing::Step> hops(const std::vector<RingStep>& steps) {
    std::vector<comm::DoubleRing::Step> hops;
    for (const RingStep& step : steps) hops.push_back(step.hops);
    return hops;
  }

  Format format_;
  const RingStep& own_;
  comm::DoubleRing ring_;
};

class RingPlan final : public Plan {
 public:
  /// `q_steps`: of a backward pass in which the query side travels; none if keys and values do.
  RingPlan(const RingLevels& levels, Kernels& kernels, ShardContract contract,
           std::vector<RingStep> kv_steps, std::vector<RingStep> q_steps)
      : levels_(levels),
        kernels_(kernels),
        kv_steps_(std::move(kv_steps)),
        q_steps_(std::move(q_steps)),
        queries_(levels.all, kernels, std::move(contract)),
        kv_ring_(levels, KvFormat{shape(), shape().dtype}, kv_steps_) {}

  std::unique_ptr<Saved> make_saved() override {
    const bool q = queries_travel();
    if (!gradients_ && q) {
      q_ring_.emplace(levels_, QueryFormat{shape()}, q_steps_);
      dk_.reserve(device(), shape(), queries_.tokens(), shape().kv_heads, shape().head_dim);
      dv_.reserve(device(), shape(), queries_.tokens(), shape().kv_heads, shape().value_dim);
    }
    if (!gradients_) {
      const std::vector<RingStep>& steps = q ? q_steps_ : kv_steps_;
      gradients_.emplace(levels_.inner, levels_.outer, kernels_,
                         q ? GradientFormat::of_q(shape()) : GradientFormat::of_kv(shape()),
                         largest_block(steps), gradient_steps(steps));
    }
    using Dq = StationaryQueries::Dq;
    return queries_.make_saved(*this, q ? Dq::travels : Dq::stays);
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    load(inputs);
    for (const RingStep& step : kv_steps_) {
      kv_ring_.start();                                   // the next block moves ...
      queries_.attend(in_use(step, inputs), step.tiles);  // ... while the one here is in use
      kv_ring_.finish();
    }
    queries_.end_forward();
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    if (queries_travel()) {
      backward_of_travelling_queries(inputs, gradients);
    } else {
      backward_of_travelling_kv(inputs, gradients);
    }
    queries_.end_backward();
  }

 private:
  // The same loop. The gradient of a block follows the block one step behind it, gains a share at
  // every rank that has one, and comes home when the last of them has added it.
  template <typename Ring, typename Differentiate>
  void travel(const std::vector<RingStep>& steps, Ring& ring, const Differentiate& differentiate) {
    for (const RingStep& step : steps) {
      ring.start();               // the next block moves, and the gradient of this one
      if (!step.tiles.empty()) {  // arrives, while this rank's share of it is computed
        differentiate(step, gradients_->share(step.tokens));
      }
      gradients_->follow(step.gradient);
      ring.finish();
    }
    gradients_->finish();
  }

  void backward_of_travelling_kv(const Inputs& inputs, const Gradients& gradients) {
    gradients_->begin({gradients.dk, gradients.dv});
    load(inputs);
    travel(kv_steps_, kv_ring_, [&](const RingStep& step, const GradientBlock& share) {
      queries_.differentiate(in_use(step, inputs), step.tiles, {share[0], share[1]});
    });
  }

  // BurstAttention's (arXiv:2403.09347): keys, values and their gradients stay.
  void backward_of_travelling_queries(const Inputs& inputs, const Gradients& gradients) {
    gradients_->begin({gradients.dq});
    dk_.begin(kernels_, gradients.dk);
    dv_.begin(kernels_, gradients.dv);
    BackwardBlock block = queries_.backward_block();
    if (const auto own = q_ring_->begin()) {
      kernels_.copy(block.q, own->q);
      kernels_.copy(block.d_out, own->d_out);
      kernels_.copy(block.lse, own->lse);
      kernels_.copy(block.delta, own->delta);
    }
    block.k = inputs.k;
    block.v = inputs.v;
    travel(q_steps_, *q_ring_, [&](const RingStep& step, const GradientBlock& share) {
      if (&step != &q_steps_.front()) {
        const QueryView visiting = q_ring_->block(step);
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

  const Shape& shape() const { return queries_.shape(); }
  comm::Device& device() const { return levels_.all.device(); }
  bool queries_travel() const { return !q_steps_.empty(); }

  // This rank's own keys and values become the first block that moves.
  void load(const Inputs& inputs) {
    if (const auto own = kv_ring_.begin()) {
      kernels_.copy(inputs.k, own->k);
      kernels_.copy(inputs.v, own->v);
    }
  }

  // Its own keys and values a rank uses where the caller has them.
  KvView in_use(const RingStep& step, const Inputs& inputs) const {
    if (&step == &kv_steps_.front()) return {inputs.k, inputs.v};
    return kv_ring_.block(step);
  }

  RingLevels levels_;
  Kernels& kernels_;
  std::vector<RingStep> kv_steps_, q_steps_;
  StationaryQueries queries_;
  BlockRing<KvFormat> kv_ring_;

  // Once there is a Saved.
  std::optional<BlockRing<QueryFormat>> q_ring_;
  GradientSum dk_, dv_;
  std::optional<DoubleGradientRing> gradients_;
};

class Ring final : public Schedule {
 public:
  Ring(RingLevels levels, Kernels& kernels, LayoutKind layout, BackwardForm backward)
      : levels_(std::move(levels)), kernels_(kernels), layout_(layout), backward_(backward) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, levels_.all.size(), levels_.all.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_valid(problem);
    require_few_tiles(layout_, problem.sequence, problem.mask);
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    const RingPlace place = levels_.place();
    ShardContract contract{problem, tokens(shard(problem.sequence)),
                           layout_rule(layout_, place.ranks, place.rank)};
    RingSteps kv = ring_steps(problem, layout_, place, Travelling::kv), q;
    if (backward_ != BackwardForm::kv) q = ring_steps(problem, layout_, place, Travelling::q);
    if (backward_ == BackwardForm::automatic && !(q.backward_bytes < kv.backward_bytes)) q = {};
    return std::make_unique<RingPlan>(levels_, kernels_, std::move(contract), std::move(kv.steps),
                                      std::move(q.steps));
  }

 private:
  RingLevels levels_;
  Kernels& kernels_;
  LayoutKind layout_;
  BackwardForm backward_;
};

}  // namespace

std::unique_ptr<Schedule> make_ring(comm::Communicator comm, Kernels& kernels, LayoutKind layout,
                                    BackwardForm backward) {
  return std::make_unique<Ring>(one_ring(comm), kernels, layout, backward);
}

std::unique_ptr<Schedule> make_double_ring(comm::Communicator comm, Kernels& kernels,
                                           LayoutKind layout, int inner_ring,
                                           BackwardForm backward) {
  return std::make_unique<Ring>(two_rings(comm, inner_ring), kernels, layout, backward);
}

}  // namespace ringspan::attention
