// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/schedule_choice.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

using Family = ScheduleChoice::Family;

struct Known {
  ScheduleEntry entry;
  ScheduleChoice choice;  // where options say nothing else
};

constexpr std::array kKnown{
    Known{{"ring", "K and V travel around the ring while the kernel works on the block at hand"},
          {Family::ring, LayoutKind::contiguous}},
    Known{{"striped", "the ring with striped shards: a causal mask costs every rank the same"},
          {Family::ring, LayoutKind::striped}},
    Known{{"zigzag", "the ring with zigzag shards: the same balance in few, large tiles"},
          {Family::ring, LayoutKind::zigzag}},
    Known{{"ulysses", "an all-to-all from tokens to heads before attention, and one back after it"},
          {Family::ulysses, LayoutKind::contiguous}},
    Known{{"usp", "ulysses in one dimension of the ranks, around a zigzag ring in the other"},
          {Family::usp, LayoutKind::zigzag}},
    Known{{"all_gather_kv", "K and V of all ranks are gathered before attention"},
          {Family::all_gather_kv, LayoutKind::zigzag}},
};

constexpr auto kEntries = [] {
  std::array<ScheduleEntry, kKnown.size()> entries;
  std::transform(kKnown.begin(), kKnown.end(), entries.begin(),
                 [](const Known& known) { return known.entry; });
  return entries;
}();

const Known& find(std::string_view name) {
  std::string names;
  for (const Known& known : kKnown) {
    if (known.entry.name == name) return known;
    names += concat(names.empty() ? "" : ", ", known.entry.name);
  }
  RINGSPAN_REQUIRE(false, "unknown schedule '", name, "'; known are ", names);
  return kKnown.front();
}

std::string divisors(int number) {
  std::string list;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) list += concat(list.empty() ? "" : ", ", divisor);
  }
  return list;
}

}  // namespace

std::span<const ScheduleEntry> schedules() { return kEntries; }

ScheduleChoice choose_schedule(std::string_view name, const ScheduleOptions& options) {
  const auto [family, layout] = find(name).choice;
  const bool own_layout = name == "striped" || name == "zigzag";
  const LayoutKind chosen = options.layout.value_or(layout);
  RINGSPAN_REQUIRE(!own_layout || chosen == layout, name, " has its own layout; for layout ",
                   attention::name(chosen), " choose schedule ring");
  RINGSPAN_REQUIRE(options.ulysses_degree == 0 || family == Family::usp, name,
                   " has no ulysses_degree; usp has");
  RINGSPAN_REQUIRE(options.placement == Placement::ulysses_inner || family == Family::usp, name,
                   " has no placement; usp has");
  RINGSPAN_REQUIRE(options.all_to_all == comm::AllToAllAlgorithm::direct ||
                       family == Family::ulysses || family == Family::usp,
                   name,
                   " has no all-to-all whose algorithm could be chosen; ulysses and usp have");
  return {family, chosen};
}

UspPosition usp_position(int ulysses_degree, Placement placement, int ranks, int rank) {
  RINGSPAN_REQUIRE(ulysses_degree > 0 && ranks % ulysses_degree == 0, "usp: a ulysses_degree of ",
                   ulysses_degree, " does not divide ", ranks, " ranks; legal are ",
                   divisors(ranks));
  const int ring_degree = ranks / ulysses_degree;
  if (placement == Placement::ulysses_inner) {
    return {ulysses_degree, rank % ulysses_degree, ring_degree, rank / ulysses_degree};
  }
  return {ulysses_degree, rank / ring_degree, ring_degree, rank % ring_degree};
}

}  // namespace ringspan::attention
