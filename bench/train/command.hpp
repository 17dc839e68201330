// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/processes.hpp"
#include "bench/train/options.hpp"

namespace ringspan::bench {

/// Trains, prints a line per step and appends its row. Collective: the first process reads the
/// text, prints and writes. Throws invalid_argument for bad input. The exit status: not 0 if what
/// was to be compared has losses that are no numbers.
int train(const TrainOptions& options, const Processes& processes);

}  // namespace ringspan::bench
