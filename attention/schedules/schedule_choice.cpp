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
  Family family;
};

constexpr std::array kKnown{
    Known{{.name = "ring",
           .summary = "K and V travel around the ring while the kernel works on the block at hand",
           .layout = LayoutKind::contiguous,
           .takes_backward = true},
          Family::ring},
    Known{{.name = "striped",
           .summary = "the ring with striped shards: a causal mask costs every rank the same",
           .layout = LayoutKind::striped,
           .takes_layout = false,
           .takes_backward = true},
          Family::ring},
    Known{{.name = "zigzag",
           .summary = "the ring with zigzag shards: the same balance in few, large tiles",
           .layout = LayoutKind::zigzag,
           .takes_layout = false,
           .takes_backward = true},
          Family::ring},
    Known{{.name = "ulysses",
           .summary = "an all-to-all from tokens to heads before attention, and one back after it",
           .layout = LayoutKind::contiguous,
           .takes_all_to_all = true},
          Family::ulysses},
    Known{{.name = "ulysses_overlapped",
           .summary = "ulysses by head groups: one is worked on, the next moves in, the last out",
           .layout = LayoutKind::contiguous,
           .takes_all_to_all = true,
           .head_groups = 4},
          Family::ulysses},
    Known{{.name = "usp",
           .summary = "ulysses in one dimension of the ranks, around a zigzag ring in the other",
           .layout = LayoutKind::zigzag,
           .takes_ulysses_degree = true,
           .takes_all_to_all = true,
           .takes_inner_ring = true,
           .takes_backward = true,
           .head_groups = 1},
          Family::usp},
    Known{{.name = "all_gather_kv",
           .summary = "K and V of all ranks are gathered before attention",
           .layout = LayoutKind::zigzag},
          Family::all_gather_kv},
    Known{{.name = "dist_flash",
           .summary = "blocks go straight to who uses them; ranks without work help others",
           .layout = LayoutKind::contiguous,
           .takes_layout = false},
          Family::dist_flash},
    Known{{.name = "double_ring",
           .summary = "a ring inside each node, and one between nodes that the inner one hides",
           .layout = LayoutKind::zigzag,
           .takes_inner_ring = true,
           .takes_backward = true},
          Family::double_ring},
    Known{{.name = "bidirectional_ring",
           .summary = "K and V travel around the ring both ways, each way past half of the ranks",
           .layout = LayoutKind::zigzag},
          Family::bidirectional_ring},
    Known{{.name = "ring_self_attention",
           .summary = "K around the ring, then V; all scores stay in memory: the first of its kind",
           .layout = LayoutKind::contiguous},
          Family::ring_self_attention},
    Known{{.name = "halo",
           .summary = "each rank fetches just what its sliding window sees of other ranks",
           .layout = LayoutKind::contiguous,
           .takes_layout = false},
          Family::halo},
};

constexpr auto kEntries = [] {
  std::array<ScheduleEntry, kKnown.size()> entries;
  std::transform(kKnown.begin(), kKnown.end(), entries.begin(),
                 [](const Known& known) { return known.entry; });
  return entries;
}();

const Known& find(std::string_view name) {
  const auto known = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const Known& each) { return each.entry.name == name; });
  RINGSPAN_REQUIRE(known != kKnown.end(), "unknown schedule '", name, "'; known are ",
                   name_list(kEntries, &ScheduleEntry::name));
  return *known;
}

}  // namespace

std::span<const ScheduleEntry> schedules() { return kEntries; }

const ScheduleEntry& schedule_entry(std::string_view name) { return find(name).entry; }

ScheduleChoice choose_schedule(std::string_view name, const ScheduleOptions& options) {
  const auto& [entry, family] = find(name);
  const LayoutKind layout = options.layout.value_or(entry.layout);
  RINGSPAN_REQUIRE(entry.takes_layout || layout == entry.layout, name,
                   " has its own layout; for layout ", attention::name(layout),
                   " choose schedule ring");
  RINGSPAN_REQUIRE(options.ulysses_degree == 0 || entry.takes_ulysses_degree, name,
                   " has no ulysses_degree; usp has");
  RINGSPAN_REQUIRE(options.placement == Placement::ulysses_inner || entry.takes_ulysses_degree,
                   name, " has no placement; usp has");
  RINGSPAN_REQUIRE(options.all_to_all == comm::AllToAllAlgorithm::direct || entry.takes_all_to_all,
                   name,
                   " has no all-to-all whose algorithm could be chosen; ulysses and usp have");
  RINGSPAN_REQUIRE(options.inner_ring == 0 || entry.takes_inner_ring, name,
                   " has no inner_ring; double_ring and usp have");
  RINGSPAN_REQUIRE(
      options.backward == BackwardForm::kv || entry.takes_backward, name,
      " has one form of backward; ring, striped, zigzag, double_ring and usp have two");
  RINGSPAN_REQUIRE(options.head_groups == 0 || entry.head_groups > 0, name,
                   " has no head_groups; ulysses_overlapped and usp have");
  RINGSPAN_REQUIRE(!options.resends || entry.takes_all_to_all, name,
                   " keeps nothing on heads that could be sent again; ulysses and usp do");
  RINGSPAN_REQUIRE(options.head_groups >= 0, name, ": head_groups is ", options.head_groups,
                   "; it must be at least 1, or 0 for what the name implies");
  const int groups = options.head_groups ? options.head_groups : entry.head_groups;
  return {family, layout, std::max(groups, 1)};
}

}  // namespace ringspan::attention
