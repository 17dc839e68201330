// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringspan {

enum class ErrorKind {
  invalid_argument,  // the call was wrong; nothing was sent and the communicator stays usable
  not_available,     // this build or machine lacks what was asked for; likewise nothing was sent
  system,            // the operating system or a vendor library failed
  peer_failed,       // another rank threw, returned early or died
  timeout,           // a deadline passed without progress
  aborted,           // somebody called abort()
};

std::string_view name(ErrorKind kind);

/// What every failure in Ringspan is thrown as. All kinds but invalid_argument and not_available
/// poison the communicator: the first cause reaches every rank and is reported ever after.
class Error : public std::runtime_error {
 public:
  /// Where it happened; -1 or empty means "does not apply".
  struct Where {
    int rank = -1;               // the rank that reports, numbered in the world
    int peer = -1;               // the rank that is to blame, numbered in the world
    std::string operation = {};  // such as "all_to_all"
    std::int64_t sequence = -1;  // of the operation, within its group
  };

  Error(ErrorKind kind, const std::string& message) : Error(kind, message, Where{}) {}
  Error(ErrorKind kind, const std::string& message, Where where)
      : std::runtime_error(message), kind_(kind), where_(std::move(where)) {}

  ErrorKind kind() const { return kind_; }
  const Where& where() const { return where_; }

 private:
  ErrorKind kind_;
  Where where_;
};

/// Its arguments, one after the other, as text.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// "a, b, c": what a message lists of `items`; `name` is a function or a member of an item.
template <typename Items, typename Name = std::identity>
std::string name_list(const Items& items, Name name = {}) {
  std::string list;
  for (const auto& item : items) list += concat(list.empty() ? "" : ", ", std::invoke(name, item));
  return list;
}

}  // namespace ringspan

/// Refuses a call before anything has happened. The message says what was wrong and what would be
/// right; its parts are joined by concat().
#define RINGSPAN_REQUIRE(condition, ...)                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      throw ::ringspan::Error(::ringspan::ErrorKind::invalid_argument, \
                              ::ringspan::concat(__VA_ARGS__));        \
    }                                                                  \
  } while (false)
