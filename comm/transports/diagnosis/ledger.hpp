// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/error.hpp"

namespace ringspan::comm::diagnosis {

/// One half of a message, as its sender or its receiver sees it.
struct Half {
  int rank = 0;  // world rank
  std::string operation;
  std::int64_t sequence = 0;  // of the operation, within its group
  std::int64_t bytes = 0;
  std::int64_t number = 0;  // among all messages between these two, in this direction
};

/// "operation 3, all_to_all"
std::string title(const Half& half);

/// What is wrong where size or name of the two halves differ.
std::optional<Error> disagreement(const Half& sender, const Half& receiver);

/// What the debug ledger finds wrong: both halves belong to the same operation of their group, and
/// both ranks count the same messages between them over all groups. What some transports forgive
/// would be a deadlock on others. `expecting`: the receiver's half of the sender's number, if any.
std::optional<Error> disorder(const Half& sender, const Half& receiver,
                              const std::function<std::optional<Half>()>& expecting);

/// What the debug ledger finds wrong in the end: every rank of a group posts every operation.
std::optional<Error> unequal_counts(const std::vector<int>& ranks,
                                    const std::vector<std::int64_t>& posted);

}  // namespace ringspan::comm::diagnosis
