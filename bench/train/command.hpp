// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/processes.hpp"
#include "bench/train/options.hpp"

namespace ringspan::bench {

/// Trains, and prints a line per step. Collective: the first process reads the text, prints and
/// writes. Throws invalid_argument for bad input. The exit status.
int train(const TrainOptions& options, const Processes& processes);

}  // namespace ringspan::bench
