// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "comm/communicator.hpp"

namespace ringspan::attention {

/// How many of the ranks at these places share something: `asked`, or if that is 0, as many as are
/// on a node. Throws invalid_argument, listing the legal numbers, unless that divides the ranks.
/// `what` names it in the message ("usp: a ulysses_degree"), `ranks` what it divides ("ranks").
int degree(std::string_view what, int asked, std::span<const comm::Place> places,
           std::string_view ranks = "ranks");

}  // namespace ringspan::attention
