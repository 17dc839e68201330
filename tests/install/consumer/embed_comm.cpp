// SPDX-License-Identifier: Apache-2.0
// Four ranks, each adding up what every other rank brought, one ring hop at a time.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ringspan/comm/launch.hpp>
#include <ringspan/comm/ring_exchange.hpp>

namespace comm = ringspan::comm;

int main() {
  std::atomic<int> right{0};
  comm::LaunchOptions options;
  options.ranks = 4;
  comm::launch("threads", options, [&](const comm::Communicator& world) {
    comm::RingExchange ring(world, sizeof(int));
    const int mine = 1 << world.rank();
    std::memcpy(ring.begin().data(), &mine, sizeof mine);
    int sum = 0;
    for (int step = 0; step < world.size(); ++step) {
      const bool last = step + 1 == world.size();
      if (!last) ring.start(sizeof(int), sizeof(int));  // the next block moves ...
      int held = 0;
      std::memcpy(&held, ring.block().data(), sizeof held);
      sum += held;  // ... while this one is in use
      if (!last) ring.finish();
    }
    if (sum == (1 << world.size()) - 1) ++right;
  });
  std::printf("%d of 4 ranks saw every block\n", right.load());
  return right == 4 ? 0 : 1;
}
