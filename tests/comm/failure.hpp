// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "comm/launch.hpp"

namespace ringspan::comm::test {

/// What one rank does wrong, in one of its posts.
enum class Fault {
  throws,
  returns_early,
  stops_answering,  // neither posts nor waits nor polls until the others have given up
  wrong_size,
  wrong_name,
  skips_operation,  // the others call it, this rank goes on to the next one
  drops_request,
};
inline constexpr Fault kFaults[] = {
    Fault::throws,     Fault::returns_early,   Fault::stops_answering, Fault::wrong_size,
    Fault::wrong_name, Fault::skips_operation, Fault::drops_request};
std::string_view name(Fault fault);

/// The fault, who commits it, and in which of its posts (or calls, when an operation is skipped).
struct FaultyRank {
  Fault fault;
  int rank;
  int at;
};

/// Runs `operation` and a barrier several times on every rank and expects that each of the others,
/// and launch(), end with an error that names the faulty rank, within the deadline and five
/// seconds. The operation may be anything collective that sends messages through the communicator.
void expect_blamed(const FaultyRank& faulty, const LaunchOptions& options,
                   const RankFunction& operation);

/// The same with a deadline of 50 ms, on GPUs half a second, 2 to 5 ranks and seven ranks and posts
/// at fault, which makes over a thousand faults of all operations and schedules; between processes
/// and under the address sanitizer with three of them.
void expect_always_blamed(Fault fault, Hop hop, const RankFunction& operation);

}  // namespace ringspan::comm::test
