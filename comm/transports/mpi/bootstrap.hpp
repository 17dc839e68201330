// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/bootstrap.hpp"
#include "comm/launch.hpp"

namespace ringspan::comm::mpi {

/// The processes that MPI has started. Initialises MPI if nobody has (it is then finalised at
/// exit), within about `deadline` seconds. MPI_Finalize then gets a quarter second, for someone may
/// be gone, unless set_patience says otherwise once a launch has ended well.
Bootstrap bootstrap(double deadline);
void set_patience(double seconds);

/// What a launch has failed with. If MPI_Finalize does not return, it is told once more: that ends
/// the job, perhaps before the first process has told it, which gets a quarter second more if it
/// can.
void set_last_words(const std::string& failure, bool first_speaks);

/// This process among them, likewise.
Process process(double deadline);

}  // namespace ringspan::comm::mpi
