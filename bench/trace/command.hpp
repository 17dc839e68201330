// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/processes.hpp"
#include "bench/trace/options.hpp"

namespace ringspan::bench {

/// Writes a trace of one pass. Collective; the exit status. Throws invalid_argument for an illegal
/// point.
int trace(const TraceOptions& options, const Processes& processes);

}  // namespace ringspan::bench
