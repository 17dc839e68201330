// SPDX-License-Identifier: Apache-2.0
// Training steps of few rows each, from papers that say less of how they were run than a prediction
// needs; what is assumed stands beside each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/training/step_flops.hpp"
#include "bench/validate/tables/tables.hpp"
#include "bench/validate/tables/training_run.hpp"

namespace ringspan::bench {
namespace {

bool is_of(const PublishedRow& row, std::string_view system) {
  return row.has("system") && row["system"].starts_with(system);
}

double tokens_per_second(const TrainingRun& run, Simulator& simulator) {
  return predict(run, simulator).tokens_per_second;
}

TrainingRun full_recompute(std::string_view name, const std::string& cluster,
                           std::int64_t sequence_length) {
  TrainingRun run;
  run.model = model(name);
  run.cluster = cluster;
  run.config.sequence_length = sequence_length;
  run.config.recompute = Recompute::full;
  return run;
}

}  // namespace

// Four A100 of one node, one sequence, ZeRO-3 for Ulysses.
bool has_fpdt(const PublishedRow& row) { return is_of(row, "Ulysses-Offload/FPDT"); }

Table read_fpdt(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("a100", Mark::fit);
  for (const PublishedRow& row : rows) {
    if (row["value"] == "OOM") {
      table.omissions.push_back({row.name(), "it ran out of memory"});
      continue;
    }
    if (row["config"].starts_with("FPDT")) {
      table.omissions.push_back({row.name(), "no schedule here moves chunks to the host"});
      continue;
    }
    TrainingRun run = full_recompute("llama3-8b", "a100", row.integer("seq"));
    const bool ulysses = row["config"] == "Ulysses";
    (ulysses ? run.config.ulysses : run.config.tensor) = gpus(row);
    run.config.zero_stage = ulysses ? 3 : 1;
    table.figures.push_back({row.name(), row["seq"] + " tokens", "MFU", row.figure("value") / 100,
                             [run](Simulator& simulator) { return utilisation(run, simulator); },
                             Mark::fit});
  }
  return table;
}

// ZeRO-3 over 8 A100 of one node; that the optimizer works on the host is not modelled.
bool has_easycontext(const PublishedRow& row) { return is_of(row, "EasyContext"); }

Table read_easycontext(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("a100", Mark::fit);
  for (const PublishedRow& row : rows) {
    TrainingRun run = full_recompute("llama2-7b", "a100", row.integer("seq"));
    const bool ring = row["config"].starts_with("ring");
    (ring ? run.config.ring : run.config.data) = gpus(row);
    run.config.global_batch = run.config.data;
    run.config.zero_stage = 3;
    run.schedule = "zigzag";
    table.figures.push_back(
        {row.name(), "", "tokens/s", row.figure("value"),
         [run](Simulator& simulator) { return tokens_per_second(run, simulator); }, Mark::fit});
  }
  return table;
}

// Four nodes of 8 A100 with an adapter of 400 Gbit/s each, as those of "h100"; one sequence,
// ZeRO-1.
bool has_loongtrain(const PublishedRow& row) { return is_of(row, "LoongTrain"); }

Table read_loongtrain(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("a100-400g", Mark::fit);
  for (const PublishedRow& row : rows) {
    const std::string metric = row["metric"];
    if (row["figure_id"] == "text") {
      table.omissions.push_back({row.name(), "no figure of one configuration"});
      continue;
    }
    if (row["value"] == "OOM") {
      table.omissions.push_back({row.name(), "it ran out of memory"});
      continue;
    }
    const bool share = metric.starts_with("MFU");
    TrainingRun run = full_recompute("llama2-7b", "a100-400g", (share ? 1024 : 128) << 10);
    run.model.kv_heads = row.integer("kv_heads");
    run.config.ulysses = row.degree("HP");
    run.config.ring = std::max(row.degree("/CP"), row.degree(" CP"));
    run.config.zero_stage = 1;
    table.figures.push_back(
        {row.name(), metric, share ? "MFU" : "tokens/s per GPU", row.figure("value"),
         [run, share](Simulator& simulator) {
           if (share) return utilisation(run, simulator);
           return tokens_per_second(run, simulator) / static_cast<double>(run.config.gpus());
         },
         Mark::fit});
  }
  return table;
}

// 1F1B with as many chunks per stage as whole layers allow, ZeRO-2; as many replicas as there are
// GPUs for, which is twice what the last line says.
bool has_llama3(const PublishedRow& row) { return is_of(row, "Llama 3"); }

Table read_llama3(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("h100", Mark::prediction);
  for (const PublishedRow& row : rows) {
    TrainingRun run;
    run.model = model("llama3-405b");
    run.cluster = "h100";
    run.schedule = "all_gather_kv";
    run.kernel = "modelled";
    run.config.sequence_length = row.integer("seq");
    run.config.tensor = row.degree("TP");
    run.config.ring = row.degree("CP");
    run.config.pipeline = row.degree("PP");
    const std::int64_t replica = run.config.gpus();
    run.config.data = static_cast<int>(gpus(row) / replica);
    const double batch = row.number_behind("batch", "").value_or(1);  // of each replica
    run.config.global_batch = std::llround(batch) * run.config.data;
    run.config.zero_stage = 2;
    run.config.pipeline_interleave = static_cast<int>(run.model.layers / run.config.pipeline);
    table.figures.push_back({row.name(), "", "MFU", row.figure("value") / 989,
                             [run](Simulator& simulator) { return utilisation(run, simulator); }});
  }
  return table;
}

}  // namespace ringspan::bench
