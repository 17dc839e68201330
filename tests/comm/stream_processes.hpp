// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/streams_failure.hpp"

// For ranks that are processes, on the transports that queue messages on a GPU's streams.
namespace ringspan::comm::test {

using Clock = std::chrono::steady_clock;

inline constexpr std::int64_t kBytes = 1000;
inline constexpr double kLongest = 20;  // seconds

inline void expect_others_well(std::vector<int> statuses, int victim) {
  statuses[victim] = 0;
  expect_all_well(statuses);
}

inline std::string what(const std::optional<Error>& error) {
  return error ? error->what() : "no error";
}

inline void pass_on_once(const Communicator& comm) {
  pass_on(comm, whole(comm.device().allocate(kBytes)), whole(comm.device().allocate(kBytes)))
      .wait();
  comm.device().synchronize(comm.deadline());
}

}  // namespace ringspan::comm::test
