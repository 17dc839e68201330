// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"

namespace ringspan::comm {

/// Refuses a call out of turn. But where a failure of the world has cut the last turn short, that
/// is why: it is thrown then, as by every later call.
template <typename... Parts>
void require_in_turn(const Communicator& comm, bool in_turn, const Parts&... parts) {
  if (!in_turn) comm.reclaim({});
  RINGSPAN_REQUIRE(in_turn, parts...);
}

}  // namespace ringspan::comm
