// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/usp_position.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <tuple>

#include "attention/schedules/degree.hpp"

namespace ringspan::attention {
namespace {

using Ranks = std::vector<int>;

/// Takes groups of `size` ranks of one `cell` each from `left`, as many as there are.
void take_groups(int size, const std::function<std::pair<int, int>(int rank)>& cell, Ranks& left,
                 std::vector<Ranks>& groups) {
  Ranks rest;
  for (auto first = left.begin(); first != left.end();) {
    const auto last =
        std::find_if(first, left.end(), [&](int rank) { return cell(rank) != cell(*first); });
    for (; last - first >= size; first += size) groups.emplace_back(first, first + size);
    rest.insert(rest.end(), first, last);
    first = last;
  }
  left = std::move(rest);
}

/// Groups of ranks close to each other, near groups side by side.
std::vector<Ranks> close_groups(std::span<const comm::Place> places, int size) {
  const auto domain = [&](int rank) {
    return std::pair(places[rank].node, places[rank].numa_domain);
  };
  const auto node = [&](int rank) { return std::pair(places[rank].node, 0); };
  const auto before = [&](int a, int b) {
    return std::tuple(domain(a), a) < std::tuple(domain(b), b);
  };
  Ranks left(places.size());
  std::iota(left.begin(), left.end(), 0);
  std::sort(left.begin(), left.end(), before);
  std::vector<Ranks> groups;
  take_groups(size, domain, left, groups);
  take_groups(size, node, left, groups);
  take_groups(
      size, [](int) { return std::pair(0, 0); }, left, groups);
  std::sort(groups.begin(), groups.end(),
            [&](const Ranks& a, const Ranks& b) { return before(a.front(), b.front()); });
  return groups;
}

}  // namespace

std::vector<UspPosition> usp_positions(int ulysses_degree, Placement placement,
                                       std::span<const comm::Place> places) {
  const int ranks = static_cast<int>(places.size());
  const int degree = attention::degree("usp: a ulysses_degree", ulysses_degree, places);
  const int ring_degree = ranks / degree;
  const bool ulysses_inner = placement == Placement::ulysses_inner;
  std::vector<UspPosition> positions(ranks);
  const std::vector<Ranks> groups = close_groups(places, ulysses_inner ? degree : ring_degree);
  for (int outer = 0; outer < std::ssize(groups); ++outer) {
    for (int inner = 0; inner < std::ssize(groups[outer]); ++inner) {
      positions[groups[outer][inner]] = ulysses_inner
                                            ? UspPosition{degree, inner, ring_degree, outer}
                                            : UspPosition{degree, outer, ring_degree, inner};
    }
  }
  return positions;
}

}  // namespace ringspan::attention
