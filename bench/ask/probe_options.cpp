// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/probe_options.hpp"

#include <string_view>
#include <vector>

#include "bench/ask/axes.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--transport", "how bytes move between ranks [threads]"},
    {"--ranks", "number of ranks [every process; 2 threads]"},
    {"--ranks-per-node", "pretend that nodes hold this many ranks [as the machines say]"},
    {"--seconds", "how long it may take, about [1]"},
    {"--cluster", "write a new cluster file, for sweeps in virtual time; its name ends in .toml"},
    {"--json", "put the figures into this file, in place of older ones of the same ranks"},
};

constexpr std::int64_t kMostRanks = 4096;
constexpr double kMostSeconds = 3600;

int count(const OptionTexts& texts, std::string_view option) {
  const auto given = texts.find(option);
  if (given == texts.end()) return 0;
  const std::vector<std::int64_t> values = integers(option, given->second, 1);
  RINGSPAN_REQUIRE(values.size() == 1, option, ": takes one value");
  RINGSPAN_REQUIRE(values[0] <= kMostRanks, option, ": ", values[0], " is too large; the most is ",
                   kMostRanks);
  return static_cast<int>(values[0]);
}

}  // namespace

std::span<const OptionEntry> probe_option_entries() { return kEntries; }

ProbeOptions probe_options(const OptionTexts& texts) {
  ProbeOptions options;
  if (const auto given = texts.find("--transport"); given != texts.end()) {
    std::vector<std::string_view> known;
    for (const comm::Backend& backend : comm::backends()) known.push_back(backend.name);
    const std::vector<std::string> transports = names("--transport", given->second, known);
    RINGSPAN_REQUIRE(transports.size() == 1, "--transport: takes one value");
    options.transport = transports[0];
    RINGSPAN_REQUIRE(comm::backend(options.transport).world != "simulated",
                     "--transport: ", options.transport,
                     " moves no bytes whose time could be measured; sweep, trace and primitives "
                     "predict with it");
  }
  options.ranks = count(texts, "--ranks");
  options.ranks_per_node = count(texts, "--ranks-per-node");
  if (const auto given = texts.find("--seconds"); given != texts.end()) {
    options.seconds = number("--seconds", given->second, 0, true);
    RINGSPAN_REQUIRE(options.seconds <= kMostSeconds, "--seconds: ", options.seconds,
                     " is too long; the most is ", kMostSeconds);
  }
  if (const auto given = texts.find("--json"); given != texts.end()) {
    options.json = given->second;
    RINGSPAN_REQUIRE(!options.json.empty(), "--json: the file name is empty");
  }
  if (const auto given = texts.find("--cluster"); given != texts.end()) {
    options.cluster = given->second;
    RINGSPAN_REQUIRE(options.cluster.ends_with(".toml"), "--cluster: '", options.cluster,
                     "' must end in .toml");
  }
  return options;
}

}  // namespace ringspan::bench
