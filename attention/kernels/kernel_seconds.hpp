// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "attention/kernels/kernel_curves.hpp"
#include "attention/tile.hpp"

namespace ringspan::attention {

/// What one call of a kernel has to do with one head of one sequence.
struct CallRows {
  std::int64_t queries = 0;  // rows that see something, each once
  std::int64_t keys = 0;     // that are seen
};
CallRows call_rows(std::span<const Tile> tiles, std::int64_t key_tokens);

/// Seconds of one call over these tiles, of so many heads in all sequences together; exact in the
/// visible pairs. `flops_per_pair`: of one head. See KernelCurve for what is charged beyond them.
double kernel_seconds(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
                      std::int64_t heads);

/// How much longer a call takes because its thread blocks do not fill the multiprocessors evenly:
/// waves are whole, and where there are fewer thread blocks than multiprocessors, some have none.
double wave_factor(std::int64_t thread_blocks, int multiprocessors, bool persistent);

}  // namespace ringspan::attention
