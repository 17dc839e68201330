// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/bootstrap.hpp"

namespace ringspan::comm {

/// Runs `body` once per rank, each in a process forked from this one; their bootstrap is memory
/// that they share. Returns how they ended, as waitpid() tells it; an exception ends a rank with
/// code 1. The dead are reaped at once, as a launcher would. After `seconds`, or when all that run
/// are stopped, the rest are killed.
std::vector<int> fork_ranks(int ranks, double seconds,
                            const std::function<void(const Bootstrap&)>& body);

/// Of what fork_ranks() has returned.
inline void expect_all_well(const std::vector<int>& statuses) {
  for (std::size_t rank = 0; rank < statuses.size(); ++rank)
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
}

/// In a rank: ends it with these words, unless the condition holds.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace ringspan::comm
