// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/host_clock.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr double kShortestNap = 20e-6, kLongestNap = 10e-3, kNapPerWait = 0.1;  // seconds

}  // namespace

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double nap_after(double seconds) {
  return std::clamp(kNapPerWait * seconds, kShortestNap, kLongestNap);
}

void wait_on_host(const std::function<bool()>& done, double deadline) {
  const double start = host_seconds();
  while (!done()) {
    const double waited = host_seconds() - start;
    if (waited > deadline)
      throw Error(ErrorKind::timeout,
                  concat("what is queued on the GPU has not ended in ", deadline, " s"));
    std::this_thread::sleep_for(std::chrono::duration<double>(nap_after(waited)));
  }
}

}  // namespace ringspan::comm::cuda
