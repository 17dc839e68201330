// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::processes {

/// One wait: for how long those waited for have shown no progress, and when to ask again.
struct Patience {
  /// How long ago this rank was first found to have returned; 0 if there is none (-1).
  double seconds_since_return(int rank);

  std::int64_t ask_at = 0;  // 0: not yet set
  int returned = -1;        // rank
  std::int64_t returned_at = 0;
  diagnosis::Patience heartbeats;
};

/// What a rank does between two looks: spins where every rank has a core, and otherwise, or after a
/// while, sleeps, a fraction of the time that it has waited.
class Idling {
 public:
  Idling(bool crowded, double longest_nap) : crowded_(crowded), longest_nap_(longest_nap) {}
  /// True if a moment may have passed: then is the time to look at other things than messages.
  bool pause();

 private:
  const bool crowded_;
  const double longest_nap_;  // seconds
  const std::int64_t start_ = diagnosis::steady_now();
  int looks_ = 0;
  bool naps_ = false;
};

}  // namespace ringspan::comm::processes
