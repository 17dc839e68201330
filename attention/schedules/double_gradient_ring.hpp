// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "attention/schedules/gradient_ring.hpp"

namespace ringspan::attention {

/// Gradients that follow blocks around a DoubleRing, by the same two rings: what the ranks of a
/// node add to a gradient is summed around the inner ring, during an inner turn; meanwhile the sum
/// of the nodes before arrives over the outer ring, where one message between nodes has a whole
/// inner turn to arrive in. Without an outer ring it is one GradientRing.
class DoubleGradientRing {
 public:
  /// What becomes of the gradient of the block held at one step. Where an inner turn begins, also
  /// what is done with its sum, of a block of so many tokens, at the end of that turn.
  struct Step {
    GradientRing::Move move = {};
    bool turn_begins = false;
    bool turn_adds = false;  // some rank of this node sees any of the block
    std::int64_t tokens = 0;
    GradientRing::Move move_outwards = {};
  };

  /// `tokens`: of the largest block. `steps`: of one pass.
  DoubleGradientRing(comm::Communicator inner, std::optional<comm::Communicator> outer,
                     Kernels& kernels, const GradientFormat& format, std::int64_t tokens,
                     std::span<const Step> steps);

  /// A new pass. Into `own`, zeros until then, this rank's own gradient gets when it is complete.
  void begin(const GradientBlock& own);

  /// Zeros, for this rank's share of the gradient of the block in use (of so many tokens).
  GradientBlock share(std::int64_t tokens) { return inner_.share(tokens); }

  /// At the end of a step: the share is added, and the gradient moves on.
  void follow(const Step& step);

  /// All gradients are home.
  void finish();

 private:
  void end_turn();

  Kernels& kernels_;
  GradientRing inner_;
  std::optional<GradientRing> outer_;
  const Step* turn_ = nullptr;  // where the turn in progress began
};

}  // namespace ringspan::attention
