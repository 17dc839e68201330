// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

/// From now on the first Ctrl-C, or SIGTERM, which Slurm sends before it ends a job, is only noted,
/// so that what is finished can be kept; the second ends the process.
void catch_interrupt();
bool interrupted();

}  // namespace ringspan::bench
