// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/bootstrap.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::ucx {

/// Collective: joins the processes of a bootstrap over UCX. Transfers must go before their wire,
/// and the memory of those that could not be cancelled after it. It closes when all connected to it
/// do, or after a moment; after fail(), it does not wait for them.
std::unique_ptr<processes::Wire> make_ucx_wire(const Bootstrap& bootstrap, double deadline);

}  // namespace ringspan::comm::ucx
