// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/transports/mpi/session.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::mpi {

/// Collective: all processes of the session agree on the tags of this launch.
std::unique_ptr<processes::Wire> make_mpi_wire(Session& session, const Bootstrap& bootstrap,
                                               double deadline);

}  // namespace ringspan::comm::mpi
