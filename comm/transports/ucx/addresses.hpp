// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "comm/bootstrap.hpp"
#include "comm/transports/processes/watched_process.hpp"

namespace ringspan::comm::ucx {

/// By which other processes reach and watch a process.
struct Address {
  processes::ProcessIdentity process;
  std::vector<std::byte> worker;  // empty: UCX could not start there
};

/// Collective: everybody's address, in rank order. If UCX could not start in this process, there
/// are none; if in another, throws peer_failed, naming it.
std::vector<Address> exchange_addresses(const Bootstrap& bootstrap,
                                        const std::vector<std::byte>& worker, double deadline);

}  // namespace ringspan::comm::ucx
