// SPDX-License-Identifier: Apache-2.0
// A ring that uses both directions of its links. Each rank's keys and values travel both ways at
// once, to half of the ranks each way, so that two blocks arrive per step, from the rank before and
// the rank behind, and half the steps of a ring are enough: the bidirectional transfer of
// decomposed collectives (Wang et al., ASPLOS 2023). To cut each block in two, a half for each way,
// would move as many bytes, but in all the steps of a ring, and each half past all ranks; this way
// a mask that hides far blocks leaves out most hops.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/bidirectional_steps.hpp"
#include "attention/schedules/gradient_sum.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"

namespace ringspan::attention {
namespace {

using Steps = std::vector<BidirectionalStep>;
using Side = BidirectionalBlock BidirectionalStep::*;

/// The largest block that is of use on that side, or moves there, in tokens.
std::int64_t largest(const Steps& steps, Side side) {
  std::int64_t tokens = 0;
  for (const BidirectionalStep& step : steps) {
    const BidirectionalBlock& block = step.*side;
    if (!block.tiles.empty() || block.gradient.sent > 0) tokens = std::max(tokens, block.tokens);
  }
  return tokens;
}

comm::BidirectionalRing::Halves capacity(const KvFormat& format, const Steps& steps) {
  if (steps.size() == 1) return {};
  return {format.bytes(largest(steps, &BidirectionalStep::front)),
          format.bytes(largest(steps, &BidirectionalStep::back))};
}

GradientRing gradient_ring(const comm::Communicator& comm, Kernels& kernels, const Shape& shape,
                           const Steps& steps, Side side, comm::Direction direction) {
  std::vector<GradientRing::Move> moves;
  for (const BidirectionalStep& step : steps) moves.push_back((step.*side).gradient);
  return {comm,  kernels,   GradientFormat::of_kv(shape), largest(steps, side),
          moves, direction, GradientRing::Delivery::added};
}

/// Gradients that follow the blocks on both sides; a rank's own come home from both.
struct GradientRings {
  GradientRings(const comm::Communicator& comm, Kernels& kernels, const Shape& shape,
                const Steps& steps)
      : front(gradient_ring(comm, kernels, shape, steps, &BidirectionalStep::front,
                            comm::Direction::to_next)),
        back(gradient_ring(comm, kernels, shape, steps, &BidirectionalStep::back,
                           comm::Direction::to_prev)) {}

  GradientRing front, back;
};

class BidirectionalRingPlan final : public Plan {
 public:
  BidirectionalRingPlan(const comm::Communicator& comm, Kernels& kernels, ShardContract contract,
                        Steps steps)
      : comm_(comm),
        kernels_(kernels),
        steps_(std::move(steps)),
        queries_(comm, kernels, std::move(contract)),
        format_{queries_.shape(), queries_.shape().dtype},
        ring_(comm, capacity(format_, steps_)) {}

  std::unique_ptr<Saved> make_saved() override {
    if (!gradients_) {
      const Shape& shape = queries_.shape();
      gradients_.emplace(comm_, kernels_, shape, steps_);
      dk_.reserve(comm_.device(), shape, queries_.tokens(), shape.kv_heads, shape.head_dim);
      dv_.reserve(comm_.device(), shape, queries_.tokens(), shape.kv_heads, shape.value_dim);
    }
    return queries_.make_saved(*this);
  }

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    load(inputs);
    for (const BidirectionalStep& step : steps_) {
      ring_.start(step.sent, step.received);
      queries_.attend(front(step, inputs), step.front.tiles);
      queries_.attend(back(step), step.back.tiles);
      ring_.finish();
    }
    queries_.end_forward();
  }

  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    dk_.begin(kernels_, gradients.dk);
    dv_.begin(kernels_, gradients.dv);
    gradients_->front.begin({dk_.view(), dv_.view()});
    gradients_->back.begin({dk_.view(), dv_.view()});
    load(inputs);
    for (const BidirectionalStep& step : steps_) {
      ring_.start(step.sent, step.received);
      differentiate(front(step, inputs), step.front, gradients_->front);
      differentiate(back(step), step.back, gradients_->back);
      ring_.finish();
    }
    gradients_->front.finish();
    gradients_->back.finish();
    dk_.end(kernels_);
    dv_.end(kernels_);
    queries_.end_backward();
  }

 private:
  // The gradient of a block follows it one step behind it, as in a ring.
  void differentiate(const KvView& kv, const BidirectionalBlock& block, GradientRing& gradients) {
    if (!block.tiles.empty()) {
      const GradientBlock share = gradients.share(block.tokens);
      queries_.differentiate(kv, block.tiles, {share[0], share[1]});
    }
    gradients.finish();
    gradients.add_share();
    gradients.start(block.gradient);
  }

  // This rank's own keys and values become the first blocks that move.
  void load(const Inputs& inputs) {
    ring_.begin();
    const auto& [front, back] = steps_.front().sent;
    for (const auto& [buffer, moved] :
         {std::pair(ring_.front(), front), std::pair(ring_.back(), back)}) {
      if (moved == 0) continue;
      const KvBlock block = format_.block(buffer.data(), queries_.tokens());
      kernels_.copy(inputs.k, block.k);
      kernels_.copy(inputs.v, block.v);
    }
  }

  // Its own keys and values a rank uses where the caller has them.
  KvView front(const BidirectionalStep& step, const Inputs& inputs) const {
    if (&step == &steps_.front()) return {inputs.k, inputs.v};
    return format_.view(ring_.front().data(), step.front.tokens);
  }
  KvView back(const BidirectionalStep& step) const {
    return format_.view(ring_.back().data(), step.back.tokens);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  Steps steps_;
  StationaryQueries queries_;
  KvFormat format_;
  comm::BidirectionalRing ring_;

  // Once there is a Saved.
  std::optional<GradientRings> gradients_;
  GradientSum dk_, dv_;
};

class BidirectionalRing final : public Schedule {
 public:
  BidirectionalRing(comm::Communicator comm, Kernels& kernels, LayoutKind layout)
      : comm_(std::move(comm)), kernels_(kernels), layout_(layout) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_possible_in(layout_, problem, comm_.size());
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    return std::make_unique<BidirectionalRingPlan>(
        comm_, kernels_, layout_contract(problem, layout_, comm_.size(), comm_.rank()),
        bidirectional_steps(problem, layout_, comm_.size(), comm_.rank()));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  LayoutKind layout_;
};

}  // namespace

std::unique_ptr<Schedule> make_bidirectional_ring(comm::Communicator comm, Kernels& kernels,
                                                  LayoutKind layout) {
  return std::make_unique<BidirectionalRing>(std::move(comm), kernels, layout);
}

}  // namespace ringspan::attention
