// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/sweep_options.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// What `ringspan` ends with.
inline constexpr int kExitOk = 0;             // every point has its row
inline constexpr int kExitFailed = 1;         // some row is invalid, or a rank failed
inline constexpr int kExitBadInput = 2;       // nothing was measured
inline constexpr int kExitInterrupted = 130;  // Ctrl-C or SIGTERM; finished rows are kept

/// Measures every point of the sweep, one row each. Collective: the first process writes the rows
/// and knows the exit status. Throws invalid_argument, with nothing written, for bad input, which
/// includes a sweep whose every point is illegal.
int sweep(const SweepOptions& options, const Processes& processes);

}  // namespace ringspan::bench
