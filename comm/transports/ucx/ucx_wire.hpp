// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/bootstrap.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::ucx {

/// Collective: joins the processes of a bootstrap over UCX. Transfers must go before their wire,
/// and the memory of those that could not be cancelled after it. It closes without waiting for
/// peers, but gives what was sent last a moment to leave.
std::unique_ptr<processes::Wire> make_ucx_wire(const Bootstrap& bootstrap, double deadline);

}  // namespace ringspan::comm::ucx
