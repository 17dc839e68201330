// SPDX-License-Identifier: Apache-2.0
// Megatron-SP (arXiv 2205.05198): what a layer keeps, as a share of what it keeps with tensor
// parallelism alone. All layers are alike, so shares of a layer are those of the model.
#include "bench/ask/models.hpp"
#include "bench/memory/memory_table.hpp"
#include "bench/training/training_memory.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

struct Known {
  std::string_view published, name;
};
constexpr Known kModels[] = {{"22B", "megatron-22b"},
                             {"175B", "gpt3-175b"},
                             {"530B", "megatron-530b"},
                             {"1T", "megatron-1t"}};

TrainingConfig tensor_parallel(const PublishedRow& row) {
  TrainingConfig config;
  config.sequence_length = row.integer("seq");
  config.tensor = row.degree("TP");
  config.tensor_sequence_parallel = false;
  config.attention = AttentionKind::materialised;
  config.dropout = true;
  return config;
}

TrainingConfig with(TrainingConfig config, const PublishedRow& row) {
  config.tensor_sequence_parallel = contains(row["config"], "sequence parallelism");
  if (contains(row["config"], "selective recompute")) config.recompute = Recompute::selective;
  if (contains(row["config"], "full recompute")) config.recompute = Recompute::full;
  return config;
}

/// In percent.
double computed(const PublishedRow& row, const Model& gpt) {
  const TrainingConfig before = tensor_parallel(row), after = with(before, row);
  const double bytes = layer_activation_bytes(gpt, after);
  if (!contains(row["metric"], "saved")) return 100 * bytes / layer_activation_bytes(gpt, before);
  TrainingConfig keeping = after;
  keeping.recompute = Recompute::none;
  return 100 * (1 - bytes / layer_activation_bytes(gpt, keeping));
}

}  // namespace

bool has_megatron_memory(const PublishedRow& row) {
  return row.has("metric") && row["system"] == "Megatron-SP" &&
         row["metric"].starts_with("activation_memory");
}

std::vector<MemoryFigure> read_megatron_memory(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) {
    for (const Known& known : kModels) {
      if (!contains(row["model"], known.published)) continue;
      const bool saved = contains(row["metric"], "saved");
      figures.push_back({row.name(known.published),
                         concat(known.published, ", ", row["config"],
                                saved ? ", % that recomputing saves" : ", % of tensor parallelism"),
                         row.figure("value"), computed(row, model(known.name))});
    }
  }
  return figures;
}

}  // namespace ringspan::bench
