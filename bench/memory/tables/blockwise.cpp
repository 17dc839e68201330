// SPDX-License-Identifier: Apache-2.0
// Blockwise Parallel Transformer (arXiv 2305.19370) and Ring Attention (arXiv 2310.01889).
#include <map>

#include "bench/memory/memory_table.hpp"
#include "comm/error.hpp"
#include "model/memory/most_within.hpp"
#include "model/memory/peak_activation.hpp"

namespace ringspan::bench {
namespace {

using model::Blocking;
using model::PeakShape;

/// How many times as long a sequence can be, until the largest activation of a layer is that of
/// `sequence` tokens with blocks in attention and the MLP. Blocks are far shorter than sequences.
double gain_over(Blocking other, std::int64_t sequence, std::int64_t heads, std::int64_t hidden) {
  const auto bytes = [&](Blocking blocking, std::int64_t tokens) {
    return peak_activation(blocking, {.sequence = tokens, .heads = heads, .hidden = hidden}).most();
  };
  const std::int64_t longest = model::most_within(
      bytes(Blocking::both, sequence), [&](std::int64_t tokens) { return bytes(other, tokens); });
  return static_cast<double>(sequence) / static_cast<double>(longest);
}

struct Contexts {
  const PublishedRow *attention = nullptr, *both = nullptr, *ring = nullptr;
};

std::string setting(const PublishedRow& row) {
  return concat(row["gpus"], " x ", row["hardware"], ", ", row["model"]);
}

}  // namespace

bool has_blockwise_ratios(const PublishedRow& row) {
  return row.has("metric") && row["metric"] == "max_context_ratio";
}

std::vector<MemoryFigure> read_blockwise_ratios(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) {
    const bool vanilla = contains(row["config"], "vanilla");
    const std::int64_t heads = row.integer("heads");
    figures.push_back({row.name(), concat("longest sequence, ", row["config"]), row.figure("value"),
                       gain_over(vanilla ? Blocking::none : Blocking::attention, row.integer("seq"),
                                 heads, heads * row.integer("head_dim"))});
  }
  return figures;
}

bool has_blockwise_contexts(const PublishedRow& row) {
  return row.has("metric") && row["system"] == "RingAttention" && row["figure_id"] == "T3" &&
         !row["config"].starts_with("vanilla");
}

std::vector<MemoryFigure> read_blockwise_contexts(const std::vector<PublishedRow>& rows) {
  std::map<std::string, Contexts> settings;
  for (const PublishedRow& row : rows) {
    Contexts& contexts = settings[setting(row)];
    if (row["config"].starts_with("Ring Attention")) {
      contexts.ring = &row;
    } else {
      (contains(row["config"], "(BPT)") ? contexts.both : contexts.attention) = &row;
    }
  }
  std::vector<MemoryFigure> figures;
  for (const auto& [text, contexts] : settings) {
    const auto& [attention, both, ring] = contexts;
    if (attention && both) {
      figures.push_back({both->name(), text + ": blocks in the MLP, too",
                         both->figure("value") / attention->figure("value"),
                         gain_over(Blocking::attention, 1 << 20, 1, 1)});
    }
    if (both && ring) {
      figures.push_back({ring->name(), text + ": on a ring",
                         ring->figure("value") / both->figure("value"),
                         static_cast<double>(ring->integer("gpus"))});
    }
  }
  return figures;
}

}  // namespace ringspan::bench
