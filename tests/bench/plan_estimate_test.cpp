// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "bench/ask/cluster_file.hpp"
#include "bench/plan/attention_estimate.hpp"
#include "bench/plan/mix.hpp"

namespace ringspan::bench {
namespace {

// Where a causal mask makes kernels slower, and most tiles of a ring do not meet it.
TEST(AttentionEstimateTest, BoundsAreBelowWhatIsSimulatedWhereWholeTilesAreFaster) {
  PlanOptions options;
  options.model.heads = options.model.kv_heads = 16;
  options.model.head_dim = 128;
  options.model.hidden = options.model.ffn_hidden = 2048;
  options.model.layers = 1;
  options.cluster = read_cluster("a100");
  options.ranks = 8;
  options.sequence_length = 1 << 20;
  AttentionEstimate estimate(options);
  std::set<std::string_view> schedules;
  for (const Mix& mix : mixes(options)) {
    schedules.insert(mix.schedule);
    const AttentionCost simulated = estimate.simulated(mix);
    for (const AttentionCost& bound : {estimate.at_best(mix), estimate.at_best_in_ring(mix)}) {
      EXPECT_LE(bound.forward.seconds, simulated.forward.seconds * (1 + 1e-12)) << text(mix);
      EXPECT_LE(bound.backward.seconds, simulated.backward.seconds * (1 + 1e-12)) << text(mix);
    }
  }
  for (const char* schedule : {"zigzag", "striped", "all_gather_kv", "usp", "ulysses"}) {
    EXPECT_TRUE(schedules.count(schedule)) << schedule;
  }
}

}  // namespace
}  // namespace ringspan::bench
