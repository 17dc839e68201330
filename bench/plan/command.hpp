// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/plan/options.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// Prints how a training step is best spread over a cluster, and why. Collective: the first process
/// does it. The exit status says whether a mix was found that fits. Throws invalid_argument for
/// what no mix can do.
int plan(const PlanOptions& options, const Processes& processes);

}  // namespace ringspan::bench
