// SPDX-License-Identifier: Apache-2.0
// USP (arXiv 2405.07719), tables 5 and 6 and figure 5: steps of Llama models in Megatron-LM on
// A800, with flash attention, sequence parallelism in tensor groups and ZeRO-1. One sequence at a
// time, for a batch of 16 long ones fits no other way. The paper counts FLOPs that a causal mask
// leaves.
#include <cstdint>
#include <string>
#include <vector>

#include "bench/validate/tables/tables.hpp"
#include "bench/validate/tables/training_run.hpp"

namespace ringspan::bench {
namespace {

bool is_usp_step(const PublishedRow& row) {
  return row.has("system") && row["system"] == "USP" && row["metric"].starts_with("TFLOPS_per_GPU");
}

TrainingRun run_of(const PublishedRow& row) {
  TrainingRun run;
  run.model = model(contains(row["model"], "LLaMA3") ? "llama3-8b" : "llama2-7b");
  run.cluster = "a800";
  run.config.sequence_length = row.integer("seq");
  run.config.global_batch = row.integer("batch");
  run.config.zero_stage = 1;
  return run;
}

TrainingRun mixed_run(const PublishedRow& row) {
  TrainingRun run = run_of(row);
  run.config.tensor = row.degree("tp=");
  run.config.ulysses = row.degree("ulysses=");
  run.config.ring = row.degree("ring=");
  const std::int64_t replica = run.config.gpus();
  run.config.data = static_cast<int>(gpus(row) / replica);
  return run;
}

/// Of each table by itself.
std::string metric_of(const PublishedRow& row) { return "MFU, " + row["figure_id"]; }

}  // namespace

bool has_usp_training(const PublishedRow& row) { return is_usp_step(row); }

Table read_usp_training(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("a800", Mark::fit);
  constexpr double kPeak = 312;  // TFLOP/s
  for (const PublishedRow& row : rows) {
    const bool data_parallel = row["figure_id"] == "F5";
    if (data_parallel && contains(row["seq"], "?")) {
      table.omissions.push_back({row.name(), "how long its sequences are is a guess"});
      continue;
    }
    TrainingRun run = data_parallel ? run_of(row) : mixed_run(row);
    if (data_parallel) {
      run.config.data = gpus(row);
      table.omissions.push_back({row.name("SP"), "which degrees it used is not said"});
    }
    table.figures.push_back(
        {row.name(data_parallel ? "DP" : ""), row["model"] + ", " + row["seq"] + " tokens",
         metric_of(row), row.figure("value") / kPeak,
         [run](Simulator& simulator) { return utilisation(run, simulator); }, Mark::fit});
  }
  return table;
}

}  // namespace ringspan::bench
