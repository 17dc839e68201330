// SPDX-License-Identifier: Apache-2.0
#include "bench/run/bytes_needed.hpp"

#include <gtest/gtest.h>

#include "bench/run/measure.hpp"
#include "bench/train/bytes_needed.hpp"
#include "bench/train/training.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

/// Every schedule, pass, hop, all-to-all, form of backward and precision on two nodes of two, KV
/// heads copied and not.
std::vector<Point> all_points() {
  Axes axes;
  axes.numbers = {{&Point::ranks, {1, 4}},      {&Point::kv_heads, {2, 4}},
                  {&Point::heads, {4}},         {&Point::head_dim, {16}},
                  {&Point::value_dim, {32}},    {&Point::sequence_length, {1024}},
                  {&Point::ranks_per_node, {2}}};
  std::vector<std::string> schedules;
  for (const auto& entry : attention::schedules()) schedules.emplace_back(entry.name);
  axes.names = {{&Point::schedule, schedules},
                {&Point::pass, {"forward", "both"}},
                {&Point::hop, {"copy", "reference"}},
                {&Point::all_to_all, {"direct", "hierarchical"}},
                {&Point::placement, {"ulysses_inner", "ring_inner"}},
                {&Point::backward, {"kv", "q"}},
                {&Point::dtype, {"bf16", "fp32"}},
                {&Point::kernel, {"null"}}};
  return points(axes);
}

TEST(BytesNeededTest, BoundsWhatTheDevicesHandOut) {
  MeasureOptions options;
  options.warmup = 0;
  options.repeats = 1;
  KnownCosts known;
  for (Point point : all_points()) {
    if (point.schedule == "halo") point.mask = "window:300:100";
    SCOPED_TRACE(concat(point.schedule, ' ', point.pass, ' ', point.hop, ' ', point.dtype, " on ",
                        point.ranks, ", KV heads ", point.kv_heads, ' ', point.all_to_all, ' ',
                        point.placement, ' ', point.backward));
    const double handed_out =
        static_cast<double>(point.ranks * measure(point, options, known).peak_bytes);
    EXPECT_GE(bytes_needed(point), handed_out);
    const double slack = point.schedule == "dist_flash" ? 1.7 : 1.25;  // its ranks are not alike
    EXPECT_LE(bytes_needed(point), slack * handed_out);
  }
}

/// Whose lengths are written as the command line has them.
TEST(BytesNeededTest, DocumentsMayOnlyCutAHalo) {
  Point point;
  point.schedule = "halo";
  point.ranks = 4;
  point.sequence_length = 1024;
  point.kv_heads = 1;
  point.value_dim = 64;
  point.mask = "window:300:100";
  const double uncut = bytes_needed(point);
  for (const char* documents : {"documents:600,424+", "documents:sampled+"}) {
    point.mask = concat(documents, "window:300:100");
    EXPECT_EQ(bytes_needed(point), uncut) << point.mask;
  }
}

/// So what it refuses cannot be.
TEST(BytesNeededTest, IsALittleLessThanTrainingTakes) {
  const std::string text(1000, 'a');
  for (const char* mesh : {"tensor=1", "tensor=2,ring=2", "ring=2,data=2", "ulysses=2,shard=2"}) {
    for (const char* recompute : {"none", "selective", "full"}) {
      for (const char* variant : {"llama", "gpt"}) {
        SCOPED_TRACE(concat(mesh, ' ', recompute, ' ', variant));
        const TrainOptions options = train_options({{"--mesh", mesh},
                                                    {"--recompute", recompute},
                                                    {"--variant", variant},
                                                    {"--layers", "4"},
                                                    {"--seq", "64"},
                                                    {"--steps", "1"},
                                                    {"--hidden", "32"},
                                                    {"--mlp-hidden", "96"}});
        double taken = 0;
        train_on("threads", options, text, [&](const TrainedStep& step) {
          taken = static_cast<double>(step.activation_bytes + step.parameter_bytes);
        });
        taken *= options.ranks();
        EXPECT_LE(bytes_needed(options), 1.05 * taken) << "ids are on the host";
        EXPECT_GE(bytes_needed(options), 0.3 * taken);
      }
    }
  }
}

}  // namespace
}  // namespace ringspan::bench
