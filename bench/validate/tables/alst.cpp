// SPDX-License-Identifier: Apache-2.0
// ALST (arXiv 2506.13996): Llama-3.1-8B with Ulysses, ZeRO-3, full recompute and a tiled loss on
// H100, FlashAttention-2. What it moves to the host (weights, optimizer, checkpoints) is not
// modelled. Its step on one GPU says how fast kernels are.
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bench/training/step_flops.hpp"
#include "bench/validate/tables/tables.hpp"
#include "bench/validate/tables/training_run.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

bool is_alst(const PublishedRow& row) { return row.has("system") && row["system"] == "ALST"; }
bool is_timed(const PublishedRow& row) { return row["metric"].starts_with("iter h:mm:ss"); }

/// Lengths that the paper rounds, as in its recipes; they give back TFLOPS from published times.
struct Recipe {
  std::string_view printed;
  std::int64_t tokens;
};
constexpr Recipe kRecipes[] = {{"500K", 500'000}, {"3.7M", 3'800'000}, {"15M", 15'500'000}};

/// Other thousands are 1024 tokens, other millions a million.
std::int64_t tokens(const PublishedRow& row) {
  for (const Recipe& recipe : kRecipes) {
    if (row["seq"] == recipe.printed) return recipe.tokens;
  }
  if (!row["seq"].ends_with("M")) return row.integer("seq");
  const double millions = row.number_behind("seq", "").value_or(0);
  RINGSPAN_REQUIRE(millions > 0 && millions < 1e6, row.place(), ": seq is '", row["seq"],
                   "'; it must be such as 160K or 2.4M");
  return std::llround(millions * 1e6);
}

TrainingRun run_of(const PublishedRow& row) {
  TrainingRun run;
  run.model = model("llama3-8b");
  run.cluster = "h100";
  run.config.sequence_length = tokens(row);
  const bool split = !contains(row["config"], "+tiled");
  (split ? run.config.ulysses : run.config.data) = gpus(row);
  run.config.global_batch = run.config.data;
  run.config.zero_stage = 3;
  run.config.recompute = Recompute::full;
  run.config.tiled_logits = true;
  return run;
}

}  // namespace

bool has_alst(const PublishedRow& row) { return is_alst(row); }

Table read_alst(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("h100", Mark::calibration);
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const PublishedRow& row : rows) {
    if (!is_timed(row)) {
      table.omissions.push_back({row.name(), "what fits depends on the host's memory, too"});
      continue;
    }
    if (contains(row["config"], "baseline")) {
      table.omissions.push_back({row.name(), "most of so short a step is what the host does"});
      continue;
    }
    if (!seen.emplace(row["gpus"], row["seq"], row["value"]).second) {
      table.omissions.push_back({row.name(), "it repeats a row of an earlier table"});
      continue;
    }
    const TrainingRun run = run_of(row);
    const bool anchor = row["figure_id"] == "T2" && row["config"] == "ALST";
    const auto predict_tflops = [run](Simulator& simulator) {
      const double seconds = predict(run, simulator).seconds.total();
      return flops_per_second(run.model, run.config, kAlstFlops, seconds) / 1e12;
    };
    table.figures.push_back({row.name(), "", "TFLOP/s per GPU", row.figure("value", 1),
                             predict_tflops, anchor ? Mark::calibration : Mark::prediction});
  }
  return table;
}

}  // namespace ringspan::bench
