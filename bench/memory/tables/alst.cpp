// SPDX-License-Identifier: Apache-2.0
// ALST (arXiv 2506.13996): the longest sequences that it trains, with some of its parts and all.
#include <algorithm>
#include <cmath>

#include "bench/ask/models.hpp"
#include "bench/memory/memory_table.hpp"
#include "bench/training/training_memory.hpp"
#include "comm/error.hpp"
#include "model/memory/checkpoints.hpp"
#include "model/memory/layer_activations.hpp"
#include "model/memory/most_within.hpp"

namespace ringspan::bench {
namespace {

constexpr double kHostBytes = 1.9e12, kElement = 2;
constexpr std::int64_t kGpusPerNode = 8;

struct Setup {
  Model model;
  std::int64_t gpus = 1;
  double device_bytes = 0;
  bool ulysses = false;  // over all of them; else each has a sequence of its own
  bool tiled_logits = false, tiled_mlp = false;
  bool offload = false;              // checkpoints are on the hosts
  bool offloads_parameters = false;  // they are there, too

  std::int64_t ranks() const { return ulysses ? gpus : 1; }
};

std::string_view known_model(const PublishedRow& row) {
  const std::string& name = row["model"];
  if (contains(name, "70B")) return "llama3-70b";
  return contains(name, "Qwen3-32B") ? "qwen3-32b" : "llama3-8b";
}

Setup setup(const PublishedRow& row) {
  const std::string& config = row["config"];
  const bool recipe = config.starts_with("SP="), all = recipe || config == "all";
  const bool h200 = row["hardware"].starts_with("H200");
  Setup setup{model(known_model(row)), gpus(row), h200 ? 141e9 : 80e9};
  setup.ulysses = all || (contains(row["figure_id"], "T1") && !config.starts_with("baseline") &&
                          !contains(config, "tiled logits"));
  setup.tiled_logits = !config.starts_with("baseline");
  setup.tiled_mlp = all || config == "+TiledMLP" || contains(config, "tiledMLP");
  setup.offload = all || contains(config, "act-ckpt CPU offload") || contains(config, "r+offload");
  setup.offloads_parameters = setup.gpus == 1 && !h200;
  return setup;
}

/// Of a layer that is computed again and its gradients: the larger of attention's and the MLP's.
double layer_bytes(const Setup& setup, std::int64_t tokens) {
  const Model& of = setup.model;
  model::LayerShare share{.tokens = tokens,
                          .residual_tokens = tokens,
                          .hidden = of.hidden,
                          .heads = of.heads,
                          .kv_heads = of.kv_heads,
                          .head_dim = of.head_dim,
                          .mlp_hidden = of.ffn_hidden,
                          .gated = of.gated,
                          .scores = model::KeptScores::lse};
  const model::LayerBytes layer = layer_activation_bytes(share);
  if (setup.tiled_mlp) share.tokens = share.residual_tokens = std::min(tokens, of.hidden);
  const double mlp = layer_activation_bytes(share).mlp;
  const auto heads = static_cast<double>((2 * of.heads + 2 * of.kv_heads) * of.head_dim);
  const double tensors = kElement * static_cast<double>(tokens) * heads;  // q, k, v, out
  const double exchanged = setup.ulysses ? tensors : 0;
  return layer.norms + layer.attention + layer.scores + exchanged + mlp + std::max(tensors, mlp);
}

double device_bytes(const Setup& setup, std::int64_t tokens) {
  const Model& of = setup.model;
  double bytes = layer_bytes(setup, tokens);
  if (!setup.offloads_parameters) {
    bytes += kElement * static_cast<double>(parameters(of)) / static_cast<double>(setup.gpus);
  }
  if (!setup.offload) bytes += model::checkpoint_bytes(tokens, of.hidden, of.layers);
  if (!setup.tiled_logits) {
    bytes += static_cast<double>(tokens) * static_cast<double>(of.vocabulary) * (kElement + 4);
  }
  return bytes;
}

double host_bytes(const Setup& setup, std::int64_t tokens) {
  const std::int64_t on_host = std::min(setup.gpus, kGpusPerNode);
  const auto hosts = static_cast<double>(setup.gpus / on_host);
  constexpr double kAdam = 12;  // master weight and two moments
  const double optimizer = kAdam * static_cast<double>(parameters(setup.model)) / hosts;
  if (!setup.offload) return optimizer;
  return optimizer +
         model::checkpoint_bytes(tokens * on_host, setup.model.hidden, setup.model.layers);
}

double longest(const Setup& setup) {
  const std::int64_t per_rank = model::most_within(1, [&](std::int64_t tokens) {
    return std::max(device_bytes(setup, tokens) / setup.device_bytes,
                    host_bytes(setup, tokens) / kHostBytes);
  });
  return static_cast<double>(per_rank * setup.ranks()) / 1e3;
}

/// "32K", "1.1M" or "500000", of 1000.
double thousands(const PublishedRow& row, std::string_view column) {
  const auto number = row.number_behind(column, "");
  RINGSPAN_REQUIRE(number && *number > 0, row.place(), ": ", column, " is '", row[column],
                   "'; it must be tokens, as 32K");
  const std::string& text = row[column];
  return *number * (text.ends_with("M") ? 1e3 : text.ends_with("K") ? 1 : 1e-3);
}

}  // namespace

bool has_alst_longest(const PublishedRow& row) {
  return row.has("metric") && row["system"] == "ALST" &&
         (row["figure_id"] == "T1" || row["metric"] == "max_seq_tokens");
}

std::vector<MemoryFigure> read_alst_longest(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) {
    const bool ablation = row["figure_id"] == "T1";
    const std::string& config = row["config"];
    const std::string with = config.starts_with("baseline") ? "baseline" : config;
    figures.push_back({row.name(),
                       concat(row["gpus"], " ", row["hardware"].substr(0, 4), ", ", row["model"],
                              ", ", with.substr(0, with.find(';'))),
                       ablation ? thousands(row, "seq") : thousands(row, "value"),
                       longest(setup(row))});
  }
  return figures;
}

}  // namespace ringspan::bench
