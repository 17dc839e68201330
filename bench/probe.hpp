// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/probe_options.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// Measures what messages cost between and inside nodes, and prints it. Collective; the exit
/// status.
int probe(const ProbeOptions& options, const Processes& processes);

}  // namespace ringspan::bench
