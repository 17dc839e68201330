// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::diagnosis {

/// The last operations of one rank, to be read after a failure. Used by one thread; recording an
/// operation allocates nothing once the ring has been filled.
class FlightRecorder {
 public:
  /// What is known of an operation when it is posted.
  struct Operation {
    std::int64_t channel = 0;
    std::int64_t sequence = 0;
    std::string_view name;
  };

  /// `now`: nanoseconds of the clock that the operations are timed by.
  explicit FlightRecorder(int rank, std::int64_t (*now)() = coarse_now);

  /// Returns a number by which to call it done. Its messages are given one after the other.
  std::int64_t post(const Operation& operation);
  void sends(int peer, std::int64_t bytes);     // of the last operation posted
  void receives(int peer, std::int64_t bytes);  // likewise
  void done(std::int64_t number);

  /// Writes rank-<rank>.txt into the folder, which is made if need be: the cause and the last
  /// operations, the newest at the end. Nothing if the folder is empty, or after the first call. A
  /// line on stderr if that fails; throws nothing.
  void dump(const std::string& folder, const Error& cause);

 private:
  struct Entry {
    std::int64_t channel = 0, sequence = 0;
    std::string name;
    std::vector<int> to, from;  // world ranks
    std::int64_t bytes_sent = 0, bytes_received = 0;
    std::int64_t posted = 0, done = -1;  // nanoseconds; done -1: in flight
  };
  static constexpr std::int64_t kCapacity = 256;

  Entry& entry(std::int64_t number) { return entries_[number % kCapacity]; }
  std::string text(const Error& cause) const;

  const int rank_;
  std::int64_t (*const now_)();
  const std::int64_t start_;
  const std::string start_of_day_;
  std::vector<Entry> entries_;
  std::int64_t posted_ = 0;
  bool dumped_ = false;
};

}  // namespace ringspan::comm::diagnosis
