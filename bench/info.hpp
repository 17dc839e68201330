// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/info_options.hpp"
#include "bench/processes.hpp"

namespace ringspan::bench {

/// Prints what this build and this machine can do, and where the processes are. Collective; the
/// exit status.
int info(const InfoOptions& options, const Processes& processes);

}  // namespace ringspan::bench
