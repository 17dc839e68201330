// SPDX-License-Identifier: Apache-2.0
// Korthikanti et al. (arXiv 2205.05198): GPT on A100 with tensor parallelism in the node and 1F1B
// across nodes, scores materialised. Table 4 times one layer, table 5 steps with full recompute and
// with sequence parallelism and selective recompute; section 6.3 adds data parallelism, which
// nothing hides. Which runs interleave their stages is in table 3.
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/training/step_flops.hpp"
#include "bench/validate/tables/tables.hpp"
#include "bench/validate/tables/training_run.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr FlopsConvention kModel = {"all pairs, by the formula of GPT", 1, true, true, false};
constexpr FlopsConvention kHardware = {"the same with what is recomputed", 1, true, true, true};

bool is_megatron(const PublishedRow& row) {
  return row.has("system") && row["system"] == "Megatron-SP";
}

struct Size {
  std::string_view text, model;
  int pipeline, interleave;
};
constexpr Size kSizes[] = {
    {"22B", "megatron-22b", 1, 1},
    {"175B GPT-3", "gpt3-175b", 8, 3},
    {"530B MT-NLG", "megatron-530b", 35, 3},
    {"1T", "megatron-1t", 64, 1},
};

/// Of one replica: "mb4", "64", "280x8".
std::int64_t batch_of(const PublishedRow& row) {
  const std::optional<double> batch =
      row.number_behind("batch", row["batch"].starts_with("mb") ? "mb" : "");
  RINGSPAN_REQUIRE(batch, row.place(), ": batch is '", row["batch"],
                   "'; it must be such as mb4, 64 or 280x8");
  return std::llround(*batch);
}

TrainingRun run_of(const PublishedRow& row) {
  TrainingRun run;
  run.cluster = "a100";
  run.config.sequence_length = row.integer("seq");
  run.config.tensor = 8;
  run.config.attention = AttentionKind::materialised;
  run.config.dropout = true;
  run.config.overlap_data_parallel = false;
  for (const Size& size : kSizes) {
    if (row["model"] != size.text) continue;
    run.model = model(size.model);
    run.model.vocabulary = 51200;  // padded
    run.config.pipeline = size.pipeline;
    run.config.pipeline_interleave = size.interleave;
  }
  RINGSPAN_REQUIRE(run.model.layers > 0, row.place(), ": unknown model '", row["model"], "'");
  const std::int64_t batch = batch_of(row);
  run.config.micro_batch = run.config.pipeline == 1 ? batch : 1;
  run.config.data = gpus(row) / (8 * run.config.pipeline);
  run.config.global_batch = batch * run.config.data;
  return run;
}

TrainingRun with(TrainingRun run, Recompute recompute, bool sequence_parallel) {
  run.config.recompute = recompute;
  run.config.tensor_sequence_parallel = sequence_parallel;
  return run;
}
TrainingRun improved(const TrainingRun& run) { return with(run, Recompute::selective, true); }
TrainingRun full_recompute(const TrainingRun& run) { return with(run, Recompute::full, false); }
TrainingRun baseline(const TrainingRun& run) { return with(run, Recompute::none, false); }

/// The runs of table 4.
TrainingRun layer_run(const PublishedRow& row) {
  const std::string& config = row["config"];
  const Recompute recompute = contains(config, "selective")        ? Recompute::selective
                              : contains(config, "full recompute") ? Recompute::full
                                                                   : Recompute::none;
  return with(run_of(row), recompute, contains(config, "sequence"));
}

double seconds(const TrainingRun& run, Simulator& simulator) {
  return predict(run, simulator).seconds.total();
}
double combined(const TrainingRun& run, Simulator& simulator) {
  const LayerSeconds layer = predict_layer(run, simulator);
  return layer.forward + layer.backward;
}

using Prediction = std::function<double(Simulator&)>;

Prediction time_of(const PublishedRow& row) {
  const std::string metric = row["metric"];
  constexpr double kMilli = 1e-3;
  if (metric.starts_with("iter_s")) {
    const TrainingRun run = run_of(row);
    return [run = contains(metric, "full") ? full_recompute(run) : improved(run)](
               Simulator& simulator) { return seconds(run, simulator); };
  }
  return [run = layer_run(row), metric](Simulator& simulator) {
    if (metric.starts_with("combined")) return combined(run, simulator) / kMilli;
    const LayerSeconds layer = predict_layer(run, simulator);
    return (metric.starts_with("fwd") ? layer.forward : layer.backward) / kMilli;
  };
}

Prediction share_of(const PublishedRow& row) {
  const std::string& metric = row["metric"];
  if (metric == "overhead") {
    return [run = layer_run(row)](Simulator& simulator) {
      return combined(run, simulator) / combined(baseline(run), simulator) - 1;
    };
  }
  const TrainingRun run = run_of(row);
  if (metric == "throughput_increase") {
    return [run](Simulator& simulator) {
      return seconds(full_recompute(run), simulator) / seconds(improved(run), simulator) - 1;
    };
  }
  const FlopsConvention& convention = metric.starts_with("HFU") ? kHardware : kModel;
  return [convention, run = contains(metric, "full") ? full_recompute(run) : improved(run)](
             Simulator& simulator) { return utilisation(run, simulator, convention); };
}

std::string metric_of(const std::string& metric) {
  if (metric.starts_with("iter_s")) return "step, s";
  return metric.starts_with("MFU") ? "MFU" : metric;
}

bool is_memory(const PublishedRow& row) { return row["metric"].starts_with("activation_memory"); }

bool is_time(const PublishedRow& row) {
  return contains(row["metric"], "ms_per_layer") || row["metric"].starts_with("iter_s");
}

}  // namespace

bool has_megatron_times(const PublishedRow& row) { return is_megatron(row) && is_time(row); }
bool has_megatron_shares(const PublishedRow& row) {
  return is_megatron(row) && !is_time(row) && !is_memory(row);
}

Table read_megatron(const std::vector<PublishedRow>& rows) {
  Table table;
  table.constants = training_constants("a100", Mark::fit);
  for (const PublishedRow& row : rows) {
    if (row["value"] == "-") {
      table.omissions.push_back({row.name(), "it is what the others are compared with"});
      continue;
    }
    const bool time = is_time(row);
    table.figures.push_back({row.name(), row["figure_id"] == "T4" ? "22B, one layer" : "",
                             metric_of(row["metric"]),
                             time ? row.figure("value") : ratio(row, "value"),
                             time ? time_of(row) : share_of(row), Mark::fit});
  }
  return table;
}

}  // namespace ringspan::bench
