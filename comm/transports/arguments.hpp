// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "comm/transport.hpp"

namespace ringspan::comm {

/// What every host transport refuses before anything is posted in a group of `size` ranks.
/// `lends`: a receive that may be rebound needs no memory of its own.
void require_valid(std::string_view operation, std::span<const Send> sends,
                   std::span<const Recv> recvs, int size, bool lends);

/// The same for the ranks of a new group, which rank `own` of a group of `size` is to join.
void require_valid_group(std::span<const int> ranks, int own, int size);

}  // namespace ringspan::comm
