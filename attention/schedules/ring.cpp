// SPDX-License-Identifier: Apache-2.0
// Ring attention and, with other layouts, striped and zigzag attention. Queries stay where they
// are. Each rank's keys and values travel around the ring, one hop per step, while the kernel works
// on the block that is already here. The layout decides what the mask leaves of each pair of
// blocks.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "attention/schedules/gradient_ring.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/ring_steps.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/stationary_queries.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::attention {
namespace {

class RingPlan final : public Plan {
 public:
  RingPlan(comm::Communicator comm, Kernels& kernels, ShardContract contract,
           std::vector<RingStep> steps)
      : comm_(std::move(comm)),
        kernels_(kernels),
        steps_(std::move(steps)),
        queries_(comm_, kernels, std::move(contract)),
        kv_format_{queries_.shape(), queries_.shape().dtype},
        ring_(comm_, steps_.size() > 1 ? kv_format_.bytes(largest_block()) : 0) {}

  void forward(const Inputs& inputs, const Outputs& outputs, Saved* saved) override {
    queries_.begin_forward(*this, inputs, outputs, saved);
    load(inputs);
    for (const RingStep& step : steps_) {
      ring_.start(step.sent, step.received);              // the next block moves ...
      queries_.attend(in_use(step, inputs), step.tiles);  // ... while the one here is in use
      ring_.finish();
    }
    queries_.end_forward();
  }

  // The same loop. The gradient of a block's keys and values follows the block one step behind it,
  // gains a share at every rank, and comes home when all have seen the block.
  void backward(const Inputs& inputs, const Outputs& outputs, const Saved& saved,
                const ConstTensorView& d_out, const Gradients& gradients) override {
    queries_.begin_backward(*this, inputs, outputs, saved, d_out, gradients);
    gradient_ring_->begin({gradients.dk, gradients.dv});
    load(inputs);
    for (const RingStep& step : steps_) {
      ring_.start(step.sent, step.received);  // the next block moves, and the gradient of this one
      if (!step.tiles.empty()) {              // arrives, while this rank's share of it is computed
        queries_.differentiate(in_use(step, inputs), step.tiles,
                               gradient_ring_->share(step.tokens));
      }
      gradient_ring_->finish();
      gradient_ring_->add_share();
      gradient_ring_->start(step.gradient);
      ring_.finish();
    }
    gradient_ring_->finish();
    queries_.end_backward();
  }

  std::unique_ptr<Saved> make_saved() override {
    if (!gradient_ring_) {
      std::vector<GradientRing::Move> moves;
      for (const RingStep& step : steps_) moves.push_back(step.gradient);
      const KvFormat format{kv_format_.shape, accumulator(kv_format_.dtype)};
      gradient_ring_.emplace(comm_, kernels_, format, largest_block(), moves);
    }
    return queries_.make_saved(*this);
  }

 private:
  std::int64_t largest_block() const {
    return std::max_element(
               steps_.begin(), steps_.end(),
               [](const RingStep& a, const RingStep& b) { return a.tokens < b.tokens; })
        ->tokens;
  }

  // This rank's own keys and values become the first block that moves.
  void load(const Inputs& inputs) {
    std::byte* own = ring_.begin().data();
    if (steps_.front().sent == 0) return;
    const KvBlock block = kv_format_.block(own, queries_.tokens());
    kernels_.copy(inputs.k, block.k);
    kernels_.copy(inputs.v, block.v);
  }

  // Its own keys and values a rank uses where the caller has them.
  KvView in_use(const RingStep& step, const Inputs& inputs) const {
    if (&step == &steps_.front()) return {inputs.k, inputs.v};
    return kv_format_.view(ring_.block().data(), step.tokens);
  }

  comm::Communicator comm_;
  Kernels& kernels_;
  std::vector<RingStep> steps_;
  StationaryQueries queries_;
  KvFormat kv_format_;
  comm::RingExchange ring_;
  std::optional<GradientRing> gradient_ring_;  // once there is a Saved
};

class Ring final : public Schedule {
 public:
  Ring(comm::Communicator comm, Kernels& kernels, LayoutKind layout)
      : comm_(std::move(comm)), kernels_(kernels), layout_(layout) {}

  Shard shard(const Sequence& sequence) const override {
    return attention::shard(layout_, sequence, comm_.size(), comm_.rank());
  }

  void require_possible(const Problem& problem) const override {
    require_valid(problem);
    require_few_tiles(layout_, problem.sequence, problem.mask);
  }

  std::unique_ptr<Plan> plan(const Problem& problem) override {
    require_possible(problem);
    kernels_.prepare(problem.shape);
    ShardContract contract{problem, tokens(shard(problem.sequence)),
                           layout_rule(layout_, comm_.size(), comm_.rank())};
    return std::make_unique<RingPlan>(comm_, kernels_, std::move(contract),
                                      ring_steps(problem, layout_, comm_.size(), comm_.rank()));
  }

 private:
  comm::Communicator comm_;
  Kernels& kernels_;
  LayoutKind layout_;
};

}  // namespace

std::unique_ptr<Schedule> make_ring(comm::Communicator comm, Kernels& kernels, LayoutKind layout) {
  return std::make_unique<Ring>(std::move(comm), kernels, layout);
}

}  // namespace ringspan::attention
