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

void Idling::pause() {
  const double waited = 1e-9 * static_cast<double>(diagnosis::steady_now() - start_);
  if (!crowded_ && waited < kSpin) {
    constexpr int kLooksPerYield = 16;  // to other processes on a busy machine
    ++looks_ % kLooksPerYield == 0 ? std::this_thread::yield() : diagnosis::relax();
  } else if (waited < kYield) {
    std::this_thread::yield();
  } else {
    const double nap = std::clamp(waited / 8, kShortestNap, longest_nap_);
    std::this_thread::sleep_for(std::chrono::duration<double>(nap));
  }
}

}  // namespace ringspan::comm::processes
