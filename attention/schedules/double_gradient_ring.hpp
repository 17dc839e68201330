// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attention/schedules/gradient_ring.hpp"

namespace ringspan::attention {

/// Gradients that follow blocks around a DoubleRing, by the same two rings: what the ranks of a
/// node add to a gradient is summed around the inner ring, during an inner turn; meanwhile the sum
/// of the nodes before arrives over the outer ring, where one message between nodes has a whole
/// inner turn to arrive in. Without an outer ring it is one GradientRing.
class DoubleGradientRing {
 public:
  /// What becomes, at the end of an inner turn, of the sum of that turn: of a block of so many
  /// tokens, unless no rank of this node has a share in it.
  struct Turn {
    bool adds = false;
    std::int64_t tokens = 0;
    GradientRing::Move move = {};
  };

  /// `tokens`: of the largest block. `moves`: of all steps of one pass. `turns`: of their turns.
  DoubleGradientRing(comm::Communicator inner, std::optional<comm::Communicator> outer,
                     Kernels& kernels, const GradientFormat& format, std::int64_t tokens,
                     std::span<const GradientRing::Move> moves, std::vector<Turn> turns);

  /// A new pass. Into `own`, zeros until then, this rank's own gradient gets when it is complete.
  void begin(const GradientBlock& own);

  /// Zeros, for this rank's share of the gradient of the block in use (of so many tokens).
  GradientBlock share(std::int64_t tokens) { return inner_.share(tokens); }

  /// At the end of a step of this turn: the share is added, and the gradient moves on.
  void follow(int turn, const GradientRing::Move& move);

  /// All gradients are home.
  void finish();

 private:
  void end_turn();

  Kernels& kernels_;
  GradientRing inner_;
  std::optional<GradientRing> outer_;
  std::vector<Turn> turns_;
  int turn_ = -1;  // in progress
};

}  // namespace ringspan::attention
