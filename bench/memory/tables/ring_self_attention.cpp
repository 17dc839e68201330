// SPDX-License-Identifier: Apache-2.0
// Ring Self-Attention (arXiv 2105.13120).
#include "model/memory/ring_self_attention.hpp"

#include <algorithm>
#include <cmath>

#include "bench/memory/memory_table.hpp"
#include "comm/error.hpp"
#include "model/memory/most_within.hpp"

namespace ringspan::bench {
namespace {

using model::RsaBlock;
using model::RsaSplit;

constexpr double kDeviceBytes = 16e9, kElement = 4;  // a P100, fp32
constexpr std::int64_t kLinformerKeys = 256;         // not published; Linformer's own

bool is_rsa(const PublishedRow& row) {
  return row.has("metric") && row["system"] == "RSA/ColAI-SP";
}

RsaSplit split(const PublishedRow& row) {
  return row["config"].starts_with("TP") ? RsaSplit::tensor : RsaSplit::sequence;
}

RsaBlock block(const PublishedRow& row, std::int64_t batch, std::int64_t sequence,
               std::int64_t ranks) {
  return {batch, sequence, row.integer("heads"), row.integer("head_dim"), ranks};
}

double elements(RsaSplit split, const RsaBlock& block) {
  return rsa_mlp_elements(split, block) + rsa_attention_elements(split, block);
}

double of_growth(const PublishedRow& row) {
  return elements(split(row),
                  block(row, row.integer("batch"), row.integer("seq"), row.degree("size=")));
}

/// The row that a row grew from: one rank, with as many tokens as the row has per rank, of the same
/// sequence or batch.
const PublishedRow* anchor(const std::vector<PublishedRow>& rows, const PublishedRow& row) {
  const std::int64_t ranks = row.degree("size=");
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const PublishedRow& other) {
    return split(other) == split(row) && other.degree("size=") == 1 &&
           other.integer("batch") * other.integer("seq") * ranks ==
               row.integer("batch") * row.integer("seq");
  });
  return found == rows.end() ? nullptr : &*found;
}

double behind(const PublishedRow& row, std::string_view key) {
  const auto value = row.number_behind("config", key);
  RINGSPAN_REQUIRE(value && *value >= 1, row.place(), ": config is '", row["config"],
                   "'; it must say ", key, "1");
  return *value;
}

/// The most samples, or tokens of each, of BERT on so many ranks.
template <typename Block>
double most(const PublishedRow& row, RsaSplit split, const Block& block_of) {
  const auto layers = static_cast<double>(row.integer("layers"));
  return static_cast<double>(model::most_within(kDeviceBytes, [&](std::int64_t count) {
    return kElement * layers * elements(split, block_of(count));
  }));
}

double most_linformer_tokens(const PublishedRow& row, std::int64_t ranks, std::int64_t batch) {
  const auto layers = static_cast<double>(row.integer("layers"));
  return static_cast<double>(model::most_within(kDeviceBytes, [&](std::int64_t tokens) {
    const RsaBlock at = block(row, batch, tokens, ranks);
    return kElement * layers *
           (rsa_mlp_elements(RsaSplit::sequence, at) + rsa_linformer_elements(at, kLinformerKeys));
  }));
}

MemoryFigure longest(const PublishedRow& row) {
  const std::string& metric = row["metric"];
  const auto published = row.number_behind("value", "");
  RINGSPAN_REQUIRE(published && *published > 0, row.place(), ": value is '", row["value"],
                   "'; it must begin with a number above 0");
  const std::int64_t ranks = gpus(row), heads = row.integer("heads");
  if (contains(metric, "Linformer")) {
    const auto batch = static_cast<std::int64_t>(behind(row, "batch "));
    return {row.name(), concat("Linformer on ", ranks, " ranks, tokens"), 1000 * *published,
            most_linformer_tokens(row, ranks, batch)};
  }
  const bool of_batch = contains(metric, "batch");
  const auto fixed = static_cast<std::int64_t>(behind(row, of_batch ? "L=" : "batch "));
  const auto on = [&](RsaSplit split, std::int64_t degree) {
    return most(row, split, [&](std::int64_t count) {
      return of_batch ? block(row, count, fixed, degree) : block(row, fixed, count, degree);
    });
  };
  return {row.name(),
          concat(of_batch ? "batch" : "sequence", " on ", ranks, " ranks, over tensor parallelism"),
          *published, on(RsaSplit::sequence, ranks) / on(RsaSplit::tensor, heads)};
}

}  // namespace

bool has_rsa_growth(const PublishedRow& row) {
  return is_rsa(row) && row["metric"] == "max_alloc_MB" && row["value"] != "OOM";
}

std::vector<MemoryFigure> read_rsa_growth(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) {
    const PublishedRow* const from = anchor(rows, row);
    if (!from || row.degree("size=") == 1) continue;
    figures.push_back(
        {row.name(),
         concat(split(row) == RsaSplit::tensor ? "tensor" : "sequence", " parallel, ",
                row.degree("size="), " ranks, ", row["batch"], " x ", row["seq"], ", MB"),
         row.figure("value"), from->figure("value") * of_growth(row) / of_growth(*from)});
  }
  return figures;
}

bool has_rsa_longest(const PublishedRow& row) {
  return is_rsa(row) && row["metric"].starts_with("max_") && row["metric"] != "max_alloc_MB";
}

std::vector<MemoryFigure> read_rsa_longest(const std::vector<PublishedRow>& rows) {
  std::vector<MemoryFigure> figures;
  for (const PublishedRow& row : rows) figures.push_back(longest(row));
  return figures;
}

}  // namespace ringspan::bench
