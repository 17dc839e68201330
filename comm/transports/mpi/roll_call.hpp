// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::comm::mpi {

/// Seconds between two looks while processes start and say goodbye.
constexpr double kStartNap = 1e-3;

/// Returns when every process of this host has called it, or throws timeout and names those that
/// have not after `deadline` seconds. For before MPI_Init, which takes no deadline, and before a
/// first collective of MPI's: neither says who is missing. Needs the folder that Open MPI's
/// launcher makes for a job; returns at once without it.
void call_roll(double deadline);

}  // namespace ringspan::comm::mpi
