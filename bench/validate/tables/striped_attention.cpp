// SPDX-License-Identifier: Apache-2.0
// Striped Attention (arXiv 2311.09431), tables 3 and 4: how much faster a training step is with
// striped attention than with a contiguous ring. A closed form, because their kernels are not ours:
// they skip whole tiles alone, as large as the blocks of short sequences, and a skipped tile is not
// free. What it costs is taken from one row of each table.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr double kVocabulary = 32000;
constexpr double kRest = 3;         // all but attention: forward, and twice that backward
constexpr double kAttention = 3.5;  // forward, and 2.5 times that backward

/// Work of the slowest device in all rounds together, in blocks of attention computed whole.
struct Work {
  double computed = 0, skipped = 0;
  double total(double skipping) const { return computed + skipping * skipped; }
};

/// A training step whose sequence is on a ring of devices.
struct Step {
  double devices = 1;
  double rest = 0;      // all but attention, in blocks
  double diagonal = 0;  // what is computed of a block that the mask cuts in half

  Work ring() const { return {devices - 1 + diagonal, 1 - diagonal}; }
  Work striped() const { return {devices * diagonal, devices * (1 - diagonal)}; }

  /// `skipping`: what a skipped tile costs, of a computed one.
  double speed_up(double skipping) const {
    return (rest + ring().total(skipping)) / (rest + striped().total(skipping));
  }
  /// The `skipping` of a speed-up.
  double skipping(double speed_up) const {
    return (rest + ring().computed - speed_up * (rest + striped().computed)) /
           (speed_up * striped().skipped - ring().skipped);
  }
};

/// The share of tiles of a block that hold a pair that causality keeps.
double diagonal_share(std::int64_t block, std::int64_t query_tile, std::int64_t key_tile) {
  const auto tiles = [block](std::int64_t tile) { return (block + tile - 1) / tile; };
  std::int64_t kept = 0;
  for (std::int64_t query = 1; query <= tiles(query_tile); ++query) {
    kept += (std::min(query * query_tile, block) + key_tile - 1) / key_tile;
  }
  return static_cast<double>(kept) / static_cast<double>(tiles(query_tile) * tiles(key_tile));
}

/// "2x8" behind `key` in the configuration.
struct Pair {
  std::int64_t first = 0, second = 0;
};
Pair pair_after(const PublishedRow& row, std::string_view key) {
  const std::string& text = row["config"];
  const char* end = text.data() + text.size();
  Pair pair;
  if (const std::size_t at = text.find(key); at != std::string::npos) {
    const auto first = std::from_chars(text.data() + at + key.size(), end, pair.first);
    if (first.ptr < end) std::from_chars(first.ptr + 1, end, pair.second);
  }
  RINGSPAN_REQUIRE(pair.first > 0 && pair.second > 0, row.place(), ": config is '", text,
                   "'; it must say '", key, "2x4'");
  return pair;
}

Step step(const PublishedRow& row) {
  const auto hidden = static_cast<double>(row.integer("heads") * row.integer("head_dim"));
  const auto layers = static_cast<double>(row.integer("layers"));
  const std::int64_t devices = pair_after(row, "mesh ").second;
  const std::int64_t tokens = row.integer("seq") / devices;
  const Pair tile = pair_after(row, "tile ");
  const bool half_speed = row["hardware"].starts_with("A100");  // TF32 beside bf16

  const double parameters = 12 * hidden * hidden * layers + kVocabulary * hidden;
  const double block = 4 * static_cast<double>(tokens) * hidden * layers * (half_speed ? 2 : 1);
  return {static_cast<double>(devices), kRest * 2 * parameters / (kAttention * block),
          diagonal_share(tokens, tile.first, tile.second)};
}

/// The numbers of "1.41 (1.72)".
struct SpeedUps {
  double measured = 0, theoretical = 0;
};
SpeedUps speed_ups(const PublishedRow& row) {
  const std::string& text = row["value"];
  const char* end = text.data() + text.size();
  const std::size_t open = text.find('(');
  SpeedUps values;
  const bool both =
      open != std::string::npos &&
      std::from_chars(text.data(), end, values.measured).ec == std::errc() &&
      std::from_chars(text.data() + open + 1, end, values.theoretical).ec == std::errc() &&
      values.measured > 0 && values.theoretical > 0;
  RINGSPAN_REQUIRE(both, row.place(), ": value is '", text, "'; it must be like 1.41 (1.72)");
  return values;
}

/// As the paper counts it: no tiles, and skipping is free.
double theoretical_speed_up(Step step) {
  step.diagonal = 0.5;
  return step.speed_up(0);
}

bool is_striped(const PublishedRow& row, std::string_view figure) {
  return row.has("metric") && row["system"] == "StripedAttention" && row["figure_id"] == figure;
}

}  // namespace

bool has_striped_gpu(const PublishedRow& row) { return is_striped(row, "T3"); }
bool has_striped_tpu(const PublishedRow& row) { return is_striped(row, "T4"); }

Table read_striped(const std::vector<PublishedRow>& rows) {
  Table table;
  if (rows.empty()) return table;
  const PublishedRow& anchor = rows.back();
  const double skipping = step(anchor).skipping(speed_ups(anchor).measured);
  for (const PublishedRow& row : rows) {
    const SpeedUps published = speed_ups(row);
    const auto measured = [skipping, step = step(row)](Simulator& simulator) {
      const bool naive = simulator.model() == Simulator::Model::naive;
      return naive ? theoretical_speed_up(step) : step.speed_up(skipping);
    };
    const auto theoretical = [step = step(row)](Simulator&) { return theoretical_speed_up(step); };
    table.figures.push_back({row.name(), row["model"], "speed-up over ring", published.measured,
                             measured, &row == &anchor ? Mark::calibration : Mark::prediction});
    table.figures.push_back({row.name("theoretical"), row["model"], "the same, as the paper counts",
                             published.theoretical, theoretical});
  }
  table.constants = {
      {"a skipped tile", fmt::format("{:.3f} of a computed one", skipping), Mark::calibration,
       anchor.place()},
      {"backward attention", "2.5 times forward", Mark::prediction, "FLOPs"},
      {"all but attention",
       "12 hidden^2 layers and 32000 hidden parameters, at twice the speed on A100",
       Mark::prediction, "the paper: TF32 beside bf16"},
  };
  return table;
}

}  // namespace ringspan::bench
