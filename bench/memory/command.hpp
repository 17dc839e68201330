// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/memory/options.hpp"

namespace ringspan::bench {

/// Prints published figures of memory beside what formulas say, or what these say of a model. The
/// exit status; throws invalid_argument for bad input, with nothing printed.
int count_memory(const MemoryOptions& options);

}  // namespace ringspan::bench
