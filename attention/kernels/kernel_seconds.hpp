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

/// Seconds of one call over these tiles, of so many heads in all sequences together, with all
/// multiprocessors busy to the end; exact in the visible pairs. `flops_per_pair`: of one head. See
/// KernelCurve for what is charged beyond them.
double kernel_seconds(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
                      std::int64_t heads);

/// The same where the GPU has so many, which thread blocks may fill unevenly. `rows`: of one head,
/// that they share.
double call_seconds(const KernelCurve& curve, std::span<const Tile> tiles, double flops_per_pair,
                    std::int64_t heads, std::int64_t rows, int multiprocessors);

/// How much longer a call of equal thread blocks takes because they do not fill multiprocessors
/// evenly: waves are whole, and where there are fewer of them than multiprocessors, some have none.
double wave_factor(std::int64_t thread_blocks, int multiprocessors, bool persistent);

/// When the last of `heads` times these thread blocks ends, each in the seconds that it takes alone
/// on a multiprocessor. They start in order, each where one ends first; `resident`, 1 or 2, share a
/// multiprocessor, and one that is left alone has all of it.
double makespan(std::span<const double> thread_blocks, std::int64_t heads, int multiprocessors,
                int resident);

}  // namespace ringspan::attention
