// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "attention/schedule.hpp"

namespace ringspan::attention {

/// What one rank must pass to a plan: views of the problem's shape with as many tokens as the
/// schedule's shard has. Every plan checks it before anything moves.
struct ShardContract {
  Problem problem;
  std::int64_t tokens = 0;
  std::string rule;  // where the number of tokens comes from, for the message

  /// Throw invalid_argument.
  void require(const Inputs& inputs, const Outputs& outputs) const;
  void require(const ConstTensorView& d_out, const Gradients& gradients) const;

 private:
  void require_view(std::string_view what, const ConstTensorView& view, std::int64_t heads,
                    std::int64_t head_dim) const;
  void require_gradient(std::string_view what, const TensorView& view, std::int64_t heads,
                        std::int64_t head_dim) const;
  void require_sinks(std::string_view what, const ConstTensorView& view) const;
};

/// Of a shard that comes straight from a layout.
ShardContract layout_contract(const Problem& problem, LayoutKind layout, int ranks, int rank);

/// Throws invalid_argument for what no schedule can do whose shards come straight from a layout.
void require_possible_in(LayoutKind layout, const Problem& problem, int ranks);

}  // namespace ringspan::attention
