// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/bootstrap.hpp"

namespace ringspan::comm::mpi {

/// The processes that MPI has started. Initialises MPI if nobody has (it is then finalised at
/// exit), within about `deadline` seconds.
Bootstrap bootstrap(double deadline);

}  // namespace ringspan::comm::mpi
