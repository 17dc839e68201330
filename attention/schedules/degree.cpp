// SPDX-License-Identifier: Apache-2.0
#include "attention/schedules/degree.hpp"

#include <map>
#include <string>

#include "comm/error.hpp"

namespace ringspan::attention {
namespace {

int ranks_per_node(std::string_view what, std::span<const comm::Place> places) {
  std::map<int, int> ranks;  // of each node
  for (const comm::Place& place : places) ++ranks[place.node];
  const int of_first = ranks.begin()->second;
  for (const auto& node : ranks) {
    RINGSPAN_REQUIRE(node.second == of_first, what, " must be given, since nodes have ", of_first,
                     " or ", node.second, " ranks");
  }
  return of_first;
}

std::string divisors(int number) {
  std::string list;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) list += concat(list.empty() ? "" : ", ", divisor);
  }
  return list;
}

}  // namespace

int degree(std::string_view what, int asked, std::span<const comm::Place> places,
           std::string_view ranks) {
  const int count = static_cast<int>(places.size());
  const int degree = asked ? asked : ranks_per_node(what, places);
  RINGSPAN_REQUIRE(degree > 0 && count % degree == 0, what, " of ", degree, " does not divide ",
                   count, " ", ranks, "; legal are ", divisors(count));
  return degree;
}

}  // namespace ringspan::attention
