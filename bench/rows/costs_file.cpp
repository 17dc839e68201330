// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/costs_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/commit.hpp"
#include "bench/machine.hpp"
#include "bench/rows/whole_file.hpp"
#include "comm/all_to_all_choice.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kWhat = "costs";  // begins what is said of the file

std::vector<comm::BytesRange> ranges(const ProbedCosts& probed) {
  return comm::hierarchical_ranges(probed.costs, probed.nodes, probed.ranks_per_node);
}

std::string link_text(const comm::LinkCosts& link) {
  std::string text =
      fmt::format("{:.3g} us + {:.3g} us per message", link.latency * 1e6, link.per_message * 1e6);
  if (link.per_long_message > 0)
    text += fmt::format(" ({:.3g} if long)", (link.per_message + link.per_long_message) * 1e6);
  return link.per_byte > 0 ? fmt::format("{}, {:.3g} GB/s", text, 1e-9 / link.per_byte) : text;
}

Json link_json(const comm::LinkCosts& link) {
  Json json = {{"latency_s", link.latency},
               {"per_message_s", link.per_message},
               {"per_message_8k_s", link.message(comm::LinkCosts::kMedium)},
               {"per_message_64k_s", link.message(comm::LinkCosts::kLong)}};
  if (link.per_byte > 0) json["bytes_per_s"] = 1 / link.per_byte;
  return json;
}

/// Links that are not there are left out, and so is what JSON has no number for.
Json json(const ProbedCosts& probed) {
  Json json = {{"machine", this_machine().name()},
               {"commit", kCommit},
               {"transport", probed.transport},
               {"ranks", probed.ranks},
               {"nodes", probed.nodes},
               {"ranks_per_node", probed.ranks_per_node},
               {"groups", probed.groups}};
  if (probed.nodes > 1) json["inter_node"] = link_json(probed.costs.inter_node);
  if (probed.ranks_per_node > 1) json["intra_node"] = link_json(probed.costs.intra_node);
  json["copy_bytes_per_s"] = 1 / probed.costs.copy_per_byte;
  for (const auto& [bytes, direct, hierarchical] : probed.costs.trials.all())
    json["all_to_all"].push_back(
        {{"bytes_per_pair", bytes}, {"direct_s", direct}, {"hierarchical_s", hierarchical}});
  json["hierarchical_bytes_per_pair"] = Json::array();
  for (const auto& [from, below] : ranges(probed)) {
    Json range = {{"from", from}};
    if (std::isfinite(below)) range["below"] = below;
    json["hierarchical_bytes_per_pair"].push_back(range);
  }
  return json;
}

bool of_same_ranks(const Json& a, const Json& b) {
  constexpr const char* kKeys[] = {"machine", "transport",      "ranks",
                                   "nodes",   "ranks_per_node", "groups"};
  return std::all_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) {
    return a.is_object() && a.contains(key) && a[key] == b[key];
  });
}

/// Nothing yet: an empty list.
Json read_list(const std::string& file) {
  std::ifstream stream(file);
  if (!stream || stream.peek() == std::ifstream::traits_type::eof()) return Json::array();
  Json list = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  RINGSPAN_REQUIRE(list.is_array(), file, " holds no list of costs; give another name");
  return list;
}

}  // namespace

std::string summary(const ProbedCosts& probed) {
  const auto counted = [](int count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string ranks = counted(probed.ranks, "rank");
  std::string text =
      concat(probed.transport, ", ", probed.groups > 1 ? concat(probed.groups, " groups of ") : "",
             ranks, " on ", counted(probed.nodes, "node"), " of ", probed.ranks_per_node, ": ");
  if (probed.nodes > 1) text += concat("between nodes ", link_text(probed.costs.inter_node), "; ");
  if (probed.ranks_per_node > 1)
    text += concat("inside ", link_text(probed.costs.intra_node), "; ");
  if (probed.ranks > 1) text += "so ";
  return concat(text, "hierarchical all-to-alls pay ", comm::text(ranges(probed)),
                probed.costs.trials.count > 0 ? ", by trials" : "");
}

void store_costs(const std::string& file, const ProbedCosts& probed) {
  require_costs_file(file);
  Json list = read_list(file);
  const Json entry = json(probed);
  const auto same = std::find_if(list.begin(), list.end(),
                                 [&](const Json& other) { return of_same_ranks(other, entry); });
  if (same == list.end()) {
    list.push_back(entry);
  } else {
    *same = entry;
  }
  write_whole(kWhat, file, [&](std::ostream& stream) { stream << list.dump(2) << '\n'; });
}

void require_costs_file(const std::string& file) {
  require_writable(kWhat, file);
  read_list(file);
}

}  // namespace ringspan::bench
