// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "comm/transports/mpi/session.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::mpi {

/// Collective: all processes of the session agree on the tags of this launch, which are below
/// `tags`, and above those of earlier launches. Throws not_available on all if there are none.
std::unique_ptr<processes::Wire> make_mpi_wire(Session& session, std::int64_t tags,
                                               const Bootstrap& bootstrap, double deadline);

}  // namespace ringspan::comm::mpi
