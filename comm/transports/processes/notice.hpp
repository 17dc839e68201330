// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/first_failure.hpp"

namespace ringspan::comm::processes {

/// "How are you?", from one that waits. The answer tells of this channel in any case.
struct Question {
  std::int64_t heartbeat = 0;
  std::int64_t channel = -1;
  bool every_channel = false;  // and of all others, which the answer otherwise has room for or not
};

/// How many operations a rank has posted in a channel.
struct Posted {
  std::int64_t channel = 0, operations = 0;
};

/// The answer, or a part of it.
struct Status {
  static constexpr std::size_t kMostPosted = 25;  // which are encoded

  std::int64_t heartbeat = 0;
  bool returned = false;
  std::optional<diagnosis::Waiting> waiting;
  std::vector<Posted> posted;
  bool last = true;  // else another part follows
};

/// The world has failed.
struct Failed {
  Error error;         // as launch() throws it
  int thrown_by = -1;  // the rank whose function threw it, if one did
};

/// For the debug ledger, in the end: what this rank posted in a group, known by its id and first
/// member.
struct Count {
  std::int64_t first_member = 0;
  Posted posted;
};

/// This rank's function has ended.
struct Returned {};

/// All have; or the launch ends with the failure told before.
struct Finished {};

using Content = std::variant<Question, Status, Failed, Count, Returned, Finished>;

/// Within Wire::kLargestNotice: long texts and lists are cut off.
std::vector<std::byte> encode(const Content& content);
Content decode(std::span<const std::byte> bytes);

/// What a rank threw is told in its own words; its peers know from it that the rank has failed.
Failed in_words(const diagnosis::Failure& failure);
diagnosis::Failure from_words(const Failed& failed);

}  // namespace ringspan::comm::processes
