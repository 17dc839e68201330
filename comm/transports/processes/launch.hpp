// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/bootstrap.hpp"
#include "comm/launch.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::processes {

/// Connects this process with all others; collective, and ends within the deadline, in seconds.
using MakeWire = std::function<std::unique_ptr<Wire>(const Bootstrap&, double deadline)>;

/// What Backend::launch does on a transport across processes. Every process of the bootstrap calls
/// it with the same options: those below options.ranks run the body, the others wait idly; all
/// return, or throw the same first cause, when all have ended.
void launch(const LaunchOptions& options, const RankFunction& body, const Bootstrap& bootstrap,
            const MakeWire& make_wire);

}  // namespace ringspan::comm::processes
