// SPDX-License-Identifier: Apache-2.0
// Bytes that ALST (arXiv 2506.13996) and others state.
#include "model/memory/checkpoints.hpp"

#include "bench/ask/models.hpp"
#include "bench/memory/memory_table.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr double kGB = 1e9, kGiB = 1 << 30;

double behind(const PublishedRow& row, std::string_view column, std::string_view key) {
  const auto value = row.number_behind(column, key);
  RINGSPAN_REQUIRE(value && *value > 0, row.place(), ": ", column, " is '", row[column],
                   "'; a number above 0 must stand behind '", key, "'");
  return *value;
}

double checkpoint_gigabytes(std::int64_t tokens, std::string_view name, double unit) {
  const Model& of = model(name);
  return model::checkpoint_bytes(tokens, of.hidden, of.layers) / unit;
}

MemoryFigure figure(const PublishedRow& row) {
  const std::string& metric = row["metric"];
  const double published = behind(row, "value", "");
  if (metric.starts_with("act ckpt memory")) {
    const auto tokens = static_cast<std::int64_t>(1e3 * behind(row, "metric", "memory "));
    return {row.name(), "checkpoints of Llama-3.1-8B, 125K tokens, GiB", published,
            checkpoint_gigabytes(tokens, "llama3-8b", kGiB)};
  }
  if (metric.starts_with("CPU offload per node")) {
    const double tokens = 1e6 * behind(row, "metric", "@"), gpus = behind(row, "metric", "on ");
    constexpr double kGpusPerNode = 8;
    return {row.name(), "checkpoints of Llama-70B on one of four hosts, 3M tokens, GiB", published,
            checkpoint_gigabytes(static_cast<std::int64_t>(tokens * kGpusPerNode / gpus),
                                 "llama3-70b", kGiB)};
  }
  const std::int64_t tokens = row.integer("seq");
  const std::string what = concat(row["config"], ", ", tokens, " tokens");
  if (metric == "mlp_tiles") {
    const double tiles = static_cast<double>(model::mlp_tiles(tokens, model("llama3-8b").hidden));
    return {row.name(), what, published, tiles};
  }
  if (metric == "bytes_GiB") {
    return {row.name(), what + ", GiB", published, model::square_bytes(tokens) / kGiB};
  }
  return {row.name(), concat("checkpoints of ", row["model"], ", ", tokens, " tokens, GB"),
          published, checkpoint_gigabytes(tokens, row["model"], kGB)};
}

}  // namespace

bool has_checkpoint_bytes(const PublishedRow& row) {
  if (!row.has("metric")) return false;
  const std::string& metric = row["metric"];
  return metric.starts_with("act ckpt memory") || metric.starts_with("CPU offload per node") ||
         metric == "mlp_tiles" || metric == "bytes_GiB" || metric == "bytes_GB";
}

std::vector<MemoryFigure> read_checkpoint_bytes(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) figures.push_back(figure(row));
  return figures;
}

}  // namespace ringspan::bench
