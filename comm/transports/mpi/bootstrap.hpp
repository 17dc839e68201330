// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/bootstrap.hpp"
#include "comm/launch.hpp"

namespace ringspan::comm::mpi {

/// The processes that MPI has started. Initialises MPI if nobody has (it is then finalised at
/// exit), within about `deadline` seconds. MPI_Finalize then gets 0.75 s, for someone may
/// be gone, unless set_patience says otherwise once a launch has ended well.
Bootstrap bootstrap(double deadline);
void set_patience(double seconds);

/// What a launch has failed with. If MPI_Finalize does not return, it is told once more: that ends
/// the job, perhaps before the process that would have told it.
void set_last_words(const std::string& failure);

/// This process among them, likewise.
Process process(double deadline);

}  // namespace ringspan::comm::mpi
