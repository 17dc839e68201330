// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/launch.hpp"

namespace ringspan::bench {

/// The processes that mpirun or srun started to run one command together; usually one alone. The
/// first decides, reads, writes and speaks. All of them call the same functions in the same order.
class Processes {
 public:
  /// As patient with each other as the environment says.
  Processes();
  Processes with_deadline(double seconds) const;

  int size() const { return process_.size; }
  bool first() const { return process_.rank == 0; }

  /// Runs on every process, as ranks in the order of the launcher.
  void together(const comm::RankFunction& body) const;

  /// What `tell` returns in the first process, in all of them; or they all throw what it threw.
  std::string told_by_first(const std::function<std::string()>& tell) const;

  /// Runs in the first process, which it may occupy for long; the others wait, without taking
  /// anything from it, until it has ended. It must not throw.
  void in_first(const std::function<void()>& body) const;

  /// The same for a body that may throw: then all of them throw it.
  void in_first_or_throw(const std::function<void()>& body) const;

  /// True if any process says so.
  bool any(bool here) const;

 private:
  std::string_view transport_ = "threads";
  comm::Process process_;
  comm::LaunchOptions options_;
};

/// True if a process is gone, or gives no answer: there is nothing left to agree on.
bool lost(const Error& error);

}  // namespace ringspan::bench
