// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/double_gradient_ring.hpp"

#include <utility>

namespace ringspan::attention {
namespace {

std::vector<GradientRing::Move> moves_of(const std::vector<DoubleGradientRing::Turn>& turns) {
  std::vector<GradientRing::Move> moves;
  for (const DoubleGradientRing::Turn& turn : turns) moves.push_back(turn.move);
  return moves;
}

}  // namespace

DoubleGradientRing::DoubleGradientRing(comm::Communicator inner,
                                       std::optional<comm::Communicator> outer, Kernels& kernels,
                                       const GradientFormat& format, std::int64_t tokens,
                                       std::span<const GradientRing::Move> moves,
                                       std::vector<Turn> turns)
    : kernels_(kernels),
      inner_(std::move(inner), kernels, format, tokens, moves),
      turns_(std::move(turns)) {
  if (outer) outer_.emplace(std::move(*outer), kernels, format, tokens, moves_of(turns_));
}

void DoubleGradientRing::begin(const GradientBlock& own) {
  for (const TensorView& part : own) kernels_.fill(part, 0);
  (outer_ ? *outer_ : inner_).begin(own);
  turn_ = -1;
}

// The last gradient of a turn comes home in the first step of the next one.
void DoubleGradientRing::follow(int turn, const GradientRing::Move& move) {
  inner_.finish();
  if (outer_ && turn != turn_) {
    end_turn();
    turn_ = turn;
    if (turns_[turn].adds) inner_.begin(outer_->share(turns_[turn].tokens));
  }
  inner_.add_share();
  inner_.start(move);
}

void DoubleGradientRing::finish() {
  inner_.finish();
  if (!outer_) return;
  end_turn();
  outer_->finish();
}

void DoubleGradientRing::end_turn() {
  if (turn_ < 0) return;
  outer_->finish();
  outer_->add_share();
  outer_->start(turns_[turn_].move);
}

}  // namespace ringspan::attention
