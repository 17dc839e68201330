// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "comm/error.hpp"

namespace ringspan::comm::diagnosis {

/// A failure as the world sees it, `cause`, and as launch() throws it: a rank's own exception says
/// more than what its peers are told.
struct Failure {
  Error cause, thrown;
};

/// What the function of `rank` threw: peers are told that this rank failed.
Failure failure_of_rank(int rank, const std::exception_ptr& thrown);

/// The first failure of a world; later ones are dropped. Safe to use from any thread.
class FirstFailure {
 public:
  /// False if there was one already.
  bool set(const Failure& failure);

  explicit operator bool() const { return failed_.load(); }
  std::optional<Failure> get() const;

  /// Throws its cause as `rank` reports it, if there is one.
  void rethrow(int rank) const;

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace ringspan::comm::diagnosis
