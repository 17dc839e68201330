// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/double_gradient_ring.hpp"

#include <utility>
#include <vector>

namespace ringspan::attention {
namespace {

using Step = DoubleGradientRing::Step;

std::vector<GradientRing::Move> inner_moves(std::span<const Step> steps) {
  std::vector<GradientRing::Move> moves;
  for (const Step& step : steps) moves.push_back(step.move);
  return moves;
}

std::vector<GradientRing::Move> outer_moves(std::span<const Step> steps) {
  std::vector<GradientRing::Move> moves;
  for (const Step& step : steps) {
    if (step.turn_begins) moves.push_back(step.move_outwards);
  }
  return moves;
}

}  // namespace

DoubleGradientRing::DoubleGradientRing(comm::Communicator inner,
                                       std::optional<comm::Communicator> outer, Kernels& kernels,
                                       const GradientFormat& format, std::int64_t tokens,
                                       std::span<const Step> steps)
    : kernels_(kernels), inner_(std::move(inner), kernels, format, tokens, inner_moves(steps)) {
  if (outer) outer_.emplace(std::move(*outer), kernels, format, tokens, outer_moves(steps));
}

void DoubleGradientRing::begin(const GradientBlock& own) {
  for (const TensorView& part : own) kernels_.fill(part, 0);
  (outer_ ? *outer_ : inner_).begin(own);
  turn_ = nullptr;
}

// The last gradient of a turn comes home in the first step of the next one.
void DoubleGradientRing::follow(const Step& step) {
  inner_.finish();
  if (outer_ && step.turn_begins) {
    end_turn();
    turn_ = &step;
    if (step.turn_adds) inner_.begin(outer_->share(step.tokens));
  }
  inner_.add_share();
  inner_.start(step.move);
}

void DoubleGradientRing::finish() {
  inner_.finish();
  if (!outer_) return;
  end_turn();
  outer_->finish();
}

void DoubleGradientRing::end_turn() {
  if (!turn_) return;
  outer_->finish();
  outer_->add_share();
  outer_->start(turn_->move_outwards);
}

}  // namespace ringspan::attention
