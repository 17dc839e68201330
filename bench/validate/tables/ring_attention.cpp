// SPDX-License-Identifier: Apache-2.0
// Ring Attention (arXiv 2310.01889): table 2, which sequences hide the ring's messages, and table
// 3, the longest trained sequences. Closed forms.
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

bool is_ring_attention(const PublishedRow& row, std::string_view figure) {
  return row.has("metric") && row["system"] == "RingAttention" && row["figure_id"] == figure;
}

double number_behind(const PublishedRow& row, std::string_view key) {
  const std::optional<double> number = row.number_behind("config", key);
  RINGSPAN_REQUIRE(number && *number > 0, row.place(), ": config is '", row["config"],
                   "'; it must say ", key, "1");
  return *number;
}

/// As the paper prints it.
double one_decimal(double value) { return std::round(value * 10) / 10; }

}  // namespace

bool has_ring_attention_blocks(const PublishedRow& row) { return is_ring_attention(row, "T2"); }

// A block of c queries takes 4 d c^2 FLOPs against c keys, whose 4 d c bytes (two of each element
// of K and V) travel meanwhile: c >= FLOP/s / (bytes/s). A device holds six blocks.
Table read_ring_attention_blocks(const std::vector<PublishedRow>& rows) {
  Table table;
  for (const PublishedRow& row : rows) {
    const double kilotokens = number_behind(row, "F=") / number_behind(row, " B=");
    table.figures.push_back({row.name("block"), "block", "smallest block, 1000 tokens",
                             row.figure("value", 0),
                             [kilotokens](Simulator&) { return one_decimal(kilotokens); }});
    table.figures.push_back({row.name("sequence"), "sequence", "smallest sequence, 1000 tokens",
                             row.figure("value", 1),
                             [kilotokens](Simulator&) { return one_decimal(6 * kilotokens); }});
  }
  return table;
}

bool has_ring_attention_contexts(const PublishedRow& row) { return is_ring_attention(row, "T3"); }

// What a device holds of activations does not depend on how many devices there are: with a ring, it
// is for as many tokens as a device trains alone with blockwise attention and feed-forward.
Table read_ring_attention_contexts(const std::vector<PublishedRow>& rows) {
  const auto setting = [](const PublishedRow& row) {
    return row["hardware"] + ", " + row["gpus"] + " devices, " + row["model"];
  };
  std::map<std::string, double> alone;
  for (const PublishedRow& row : rows) {
    if (row["config"].find("(BPT)") != std::string::npos) alone[setting(row)] = row.figure("value");
  }
  Table table;
  for (const PublishedRow& row : rows) {
    const auto of_one = alone.find(setting(row));
    if (row["config"].find("(BPT)") != std::string::npos) {
      table.figures.push_back(
          {row.name(), row["model"], "longest sequence, Ki tokens", row.figure("value"),
           [tokens = row.figure("value")](Simulator&) { return tokens; }, Mark::calibration});
    } else if (row["config"].starts_with("Ring Attention") && of_one != alone.end()) {
      const double tokens = of_one->second * row.figure("gpus");
      table.figures.push_back({row.name(), row["hardware"], "longest sequence, Ki tokens",
                               row.figure("value"), [tokens](Simulator&) { return tokens; }});
    } else {
      table.omissions.push_back({row.name(), "one device alone, in JAX: no schedule is involved"});
    }
  }
  return table;
}

}  // namespace ringspan::bench
