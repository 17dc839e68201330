// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/options.hpp"

#include <algorithm>
#include <string_view>

#include "bench/ask/axes.hpp"
#include "bench/ask/cluster_file.hpp"
#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--primitive", "which of them [all that the transport has]"},
    {"--transport", "how bytes move between ranks [threads; simulated with --cluster]"},
    {"--cluster", "simulated: a cluster by name, or a file (with a slash or .toml in it)"},
    {"--ranks", "number of ranks, at least 2: one moves nothing [2]"},
    {"--ranks-per-node", "pretend that nodes hold this many ranks [as the machines say]"},
    {"--inner-ring", "double_ring: ranks of an inner ring [the ranks of a node]"},
    {"--bytes", "S, as nccl-tests counts it for each primitive [4Ki:64Mi:x4]"},
    {"--hop", "how a ring's hop in one address space goes: copy, reference [copy]"},
    {"--warmup", "iterations that are not counted [3; simulated: 0]"},
    {"--repeats", "iterations that are [20; simulated: 1, which is exact]"},
    {"--deadline", "seconds that an awaited rank may make no progress [60]"},
    {"--costs", "a JSON file for what messages cost, where all_to_all_automatic goes by it"},
    {"--format", "table, csv, nccl (the columns of nccl-tests) [table]"},
};

constexpr std::int64_t kMost = 1'000'000;  // iterations
constexpr std::int64_t kMostRanks = 4096;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

std::string text(const OptionTexts& texts, std::string_view option, std::string_view otherwise) {
  const auto found = texts.find(option);
  return found == texts.end() ? std::string(otherwise) : found->second;
}

/// The values of an axis, none above `most`.
std::vector<std::int64_t> axis(const OptionTexts& texts, std::string_view option,
                               std::string_view otherwise, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values = integers(option, text(texts, option, otherwise), least);
  for (const std::int64_t value : values) {
    RINGSPAN_REQUIRE(value <= most, option, ": ", value, " is too large; the most is ", most);
  }
  return values;
}

int single(const OptionTexts& texts, std::string_view option, std::string_view otherwise,
           std::int64_t least, std::int64_t most) {
  const std::vector<std::int64_t> values = axis(texts, option, otherwise, least, most);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
  return static_cast<int>(values[0]);
}

template <typename Table>
std::vector<std::string> chosen(const OptionTexts& texts, std::string_view option,
                                std::string_view otherwise, const Table& table) {
  std::vector<std::string_view> known;
  for (const auto& entry : table) known.push_back(entry.name);
  return names(option, text(texts, option, otherwise), known);
}

std::string one_of(const OptionTexts& texts, std::string_view option, std::string_view otherwise,
                   std::vector<std::string_view> known) {
  const std::vector<std::string> values = names(option, text(texts, option, otherwise), known);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
  return values[0];
}

/// One process simulates one cluster.
std::optional<comm::Cluster> cluster(const OptionTexts& texts, const Clusters& clusters,
                                     const PrimitiveOptions& options) {
  const auto& transports = options.transports;
  const bool given = texts.count("--cluster") > 0;
  const bool simulated =
      std::find(transports.begin(), transports.end(), "simulated") != transports.end();
  RINGSPAN_REQUIRE(simulated || !given,
                   "--cluster: belongs to --transport simulated, which is not asked for");
  RINGSPAN_REQUIRE(given || !simulated, "--cluster: simulated ranks need one; ", cluster_choice());
  RINGSPAN_REQUIRE(!simulated || transports.size() == 1,
                   "--transport: simulated takes no other transport beside it");
  if (!given) return std::nullopt;
  return clusters.at(text(texts, "--cluster", ""));
}

}  // namespace

std::span<const OptionEntry> primitive_option_entries() { return kEntries; }

PrimitiveOptions primitive_options(const OptionTexts& texts, const Clusters& clusters) {
  using Format = PrimitiveOptions::Format;
  PrimitiveOptions options;
  if (texts.count("--primitive") > 0)
    options.primitives = chosen(texts, "--primitive", "", primitives());
  const bool simulated = texts.count("--cluster") > 0;
  options.transports =
      chosen(texts, "--transport", simulated ? "simulated" : "threads", comm::backends());
  options.ranks = axis(texts, "--ranks", "2", 2, kMostRanks);
  options.bytes = axis(texts, "--bytes", "4Ki:64Mi:x4", kLabelBytes, kMostBytes);
  const int pretended = comm::launch_options_from_environment().ranks_per_node;
  options.ranks_per_node =
      single(texts, "--ranks-per-node", std::to_string(pretended), 0, kMostRanks);
  options.inner_ring = single(texts, "--inner-ring", "0", 0, kMostRanks);
  options.cluster = cluster(texts, clusters, options);
  options.warmup = single(texts, "--warmup", simulated ? "0" : "3", 0, kMost);
  options.repeats = single(texts, "--repeats", simulated ? "1" : "20", 1, kMost);
  if (texts.count("--deadline") > 0)
    options.deadline = number("--deadline", text(texts, "--deadline", ""), 0, true);
  options.costs = text(texts, "--costs", "");
  RINGSPAN_REQUIRE(texts.count("--costs") == 0 || !options.costs.empty(), "--costs: names no file");
  const std::string hop = one_of(texts, "--hop", "copy", {"copy", "reference"});
  options.hop = hop == "copy" ? comm::Hop::copy : comm::Hop::reference;
  const std::string format = one_of(texts, "--format", "table", {"table", "csv", "nccl"});
  options.format = format == "csv" ? Format::csv : format == "nccl" ? Format::nccl : Format::table;
  return options;
}

}  // namespace ringspan::bench
