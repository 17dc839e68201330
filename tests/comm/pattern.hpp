// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::comm::test {

/// Byte `index` of a message: it names its sender, its receiver and the round it belongs to.
inline std::byte pattern(int source, int destination, int round, std::int64_t index) {
  return static_cast<std::byte>(source * 37 + destination * 11 + round * 5 + index * 3);
}

/// Byte `index` of a slice, rows one after the other.
inline std::byte& byte_of(const Slice& slice, std::int64_t index) {
  return slice.data()[index / slice.row_bytes * slice.stride + index % slice.row_bytes];
}

inline void write_pattern(const Slice& slice, int source, int destination, int round) {
  for (std::int64_t i = 0; i < slice.bytes(); ++i) {
    byte_of(slice, i) = pattern(source, destination, round, i);
  }
}

inline testing::AssertionResult has_pattern(const Slice& slice, int source, int destination,
                                            int round) {
  for (std::int64_t i = 0; i < slice.bytes(); ++i) {
    const std::byte wanted = pattern(source, destination, round, i), found = byte_of(slice, i);
    if (found == wanted) continue;
    return testing::AssertionFailure()
           << "byte " << i << " of " << slice.bytes() << " from rank " << source << " to rank "
           << destination << " in round " << round << " is " << static_cast<int>(found) << ", not "
           << static_cast<int>(wanted);
  }
  return testing::AssertionSuccess();
}

/// The message with which a call is refused as an invalid argument; empty if it is not.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_argument) return error.what();
    throw;
  }
  return "";
}

/// Everything that helps to find a fault.
inline DebugOptions all_checks(std::uint64_t seed) {
  return {.ledger = true, .poison = true, .max_delay = 50e-6, .seed = seed};
}

}  // namespace ringspan::comm::test
