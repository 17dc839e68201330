// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/dist_flash_steps.hpp"

namespace ringspan::attention {

std::vector<DistFlashStep> dist_flash_steps(const Problem& problem, LayoutKind layout, int ranks,
                                            int rank) {
  const std::vector<Shard> shards = attention::shards(layout, problem.sequence, ranks);
  const auto seen = [&](int queries, int keys) {
    return visible_tiles(shards[queries], shards[keys], problem.sequence, problem.mask);
  };
  std::vector<DistFlashStep> steps(ranks / 2 + 1);
  for (int t = 0; t <= ranks / 2; ++t) {
    DistFlashStep& step = steps[t];
    step.behind = (rank - t + ranks) % ranks;
    step.ahead = (rank + t) % ranks;
    step.tokens = tokens(shards[step.behind]);
    step.own = seen(rank, step.behind);
    if (t == 0) continue;
    step.lends_keys = !seen(step.ahead, rank).empty();
    if (2 * t == ranks) continue;
    step.helped = seen(step.behind, rank);
    step.is_helped = !seen(rank, step.ahead).empty();
  }
  return steps;
}

}  // namespace ringspan::attention
