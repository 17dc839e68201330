// SPDX-License-Identifier: Apache-2.0
#include "bench/interrupt.hpp"

#include <atomic>
#include <csignal>

namespace ringspan::bench {
namespace {

std::atomic<bool> noted{false};  // a signal handler has nowhere else to write
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int signal) {
  noted.store(true);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_interrupt() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, note);
}
bool interrupted() { return noted.load(); }

}  // namespace ringspan::bench
