// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace ringspan::bench {

/// The texts of all ranks, at rank 0; nothing elsewhere. Collective.
std::vector<std::string> gather(const comm::Communicator& comm, const std::string& text);

}  // namespace ringspan::bench
