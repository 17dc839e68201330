// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace ringspan::model {

/// Which activations a block keeps for its backward pass; the others are computed again.
///   none            all: x; q, k, v, out, lse; y; the MLP's hidden values
///   selective       all but the MLP's hidden values. (Megatron-SP recomputes the scores of
///                   attention instead; kernels that never store them leave the MLP the largest.)
///   selective_plus  x, and attention's out and lse: attention never runs forward again. (Called
///                   Selective Checkpoint++ in LoongTrain, and remat-aware in DISTFLASHATTN. With
///                   ulysses or usp it takes ScheduleOptions::resends.)
///   full            x alone
enum class Recompute { none, selective, selective_plus, full };

std::string_view name(Recompute recompute);
Recompute recompute(std::string_view name);  // throws invalid_argument, listing the known names

/// How memory is bought with time; results are those of the defaults but for rounding.
struct MemoryOptions {
  Recompute recompute = Recompute::none;
  bool offload = false;  // what a block keeps of x goes to memory that the device does not count
  std::int64_t mlp_tiles = 1;  // of tokens; with more than 1, hidden values are never kept (ALST)
  bool blockwise = false;      // those tiles begin at attention's projection, and y, between it and
                               // the MLP, is never whole (BPT)
  std::int64_t loss_tiles = 1;  // of tokens, whose logits are there at once (ALST)
};

/// Throws invalid_argument for tiles that are none.
void require_valid(const MemoryOptions& options);

}  // namespace ringspan::model
