// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/patience.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace ringspan::comm::processes {
namespace {

// Seconds.
constexpr double kSpin = 50e-3;   // as long as a large message takes
constexpr double kYield = 50e-6;  // what putting a thread to sleep costs
constexpr double kShortestNap = 20e-6;

}  // namespace

double Patience::seconds_since_return(int rank) {
  const std::int64_t now = diagnosis::steady_now();
  if (rank < 0 || rank != returned) returned_at = now;
  returned = rank;
  return 1e-9 * static_cast<double>(now - returned_at);
}

bool Idling::pause() {
  // Reading the clock and yielding take longer than a look at messages, and messages of 64 KiB are
  // a few looks apart; a pause of the core costs them two to four percent, too.
  constexpr int kLooksPerClock = 64;
  if (!crowded_ && !naps_ && ++looks_ % kLooksPerClock != 0) return false;
  const double waited = 1e-9 * static_cast<double>(diagnosis::steady_now() - start_);
  naps_ = waited >= (crowded_ ? kYield : kSpin);
  if (naps_) {
    const double nap = std::clamp(waited / 8, kShortestNap, longest_nap_);
    std::this_thread::sleep_for(std::chrono::duration<double>(nap));
  } else {
    std::this_thread::yield();  // to other processes on a busy machine
  }
  return true;
}

}  // namespace ringspan::comm::processes
