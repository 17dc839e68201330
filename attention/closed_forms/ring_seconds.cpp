// SPDX-License-Identifier: Apache-2.0
#include "attention/closed_forms/ring_seconds.hpp"

#include <algorithm>
#include <cstddef>

namespace ringspan::attention {
namespace {

/// A message of a step, between two ranks.
struct Message {
  int from, to;
  UnderWay time;
};

/// Of all that `rank` sends or receives.
std::vector<UnderWay> of_rank(int rank, const std::vector<Message>& messages) {
  std::vector<UnderWay> own;
  for (const Message& message : messages) {
    if (message.from == rank || message.to == rank) own.push_back(message.time);
  }
  return own;
}

/// When the last of them has arrived.
double last_end(const std::vector<UnderWay>& messages, double otherwise) {
  for (const UnderWay& message : messages) otherwise = std::max(otherwise, message.end);
  return otherwise;
}

/// Adds a message that starts when both ranks are ready.
void add(std::vector<Message>& messages, const std::vector<double>& ready, int from, int to,
         double seconds) {
  if (seconds <= 0) return;
  const double start = std::max(ready[from], ready[to]);
  messages.push_back({from, to, {start, start + seconds}});
}

}  // namespace

double end_of_work(double start, double work, double slowdown, std::vector<UnderWay> messages) {
  std::sort(messages.begin(), messages.end(),
            [](const UnderWay& a, const UnderWay& b) { return a.start < b.start; });
  double now = start;
  for (const UnderWay& message : messages) {
    const double from = std::max(now, message.start);  // what two messages slow down counts once
    if (message.end <= from) continue;
    if (now + work <= from) break;
    work -= from - now;
    if (from + work * slowdown <= message.end) return from + work * slowdown;
    work -= (message.end - from) / slowdown;
    now = message.end;
  }
  return now + work;
}

std::vector<double> ring_seconds(const std::vector<std::vector<RingStepSeconds>>& steps,
                                 double slowdown) {
  const int ranks = static_cast<int>(steps.size());
  std::vector<double> ended(ranks, 0);
  std::vector<Message> gradients;  // of the step before
  for (std::size_t step = 0; step < steps[0].size(); ++step) {
    std::vector<Message> kv;
    for (int rank = 0; rank < ranks; ++rank)
      add(kv, ended, rank, (rank + 1) % ranks, steps[rank][step].kv);

    std::vector<double> added = ended;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<UnderWay> blocks = of_rank(rank, kv), back = of_rank(rank, gradients);
      std::vector<UnderWay> all = blocks;
      all.insert(all.end(), back.begin(), back.end());
      const double worked = end_of_work(ended[rank], steps[rank][step].work, slowdown, all);
      added[rank] = end_of_work(last_end(back, worked), steps[rank][step].adding, slowdown, blocks);
      ended[rank] = last_end(blocks, added[rank]);
    }

    gradients.clear();
    for (int rank = 0; rank < ranks; ++rank)
      add(gradients, added, rank, steps[rank][step].gradient_to, steps[rank][step].gradient);
  }
  return ended;
}

}  // namespace ringspan::attention
