// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/primitives/options.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// Times every primitive asked for, on all combinations of transport, ranks and bytes, and prints
/// what came of it. Collective: the first process prints, and knows the exit status, which is not 0
/// if any data was wrong. Throws invalid_argument, with nothing printed, if nothing could be timed.
int time_primitives(const PrimitiveOptions& options, const Processes& processes);

}  // namespace ringspan::bench
