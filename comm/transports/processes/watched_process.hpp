// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace ringspan::comm::processes {

/// Which process it is, on which machine.
struct ProcessIdentity {
  static ProcessIdentity own();
  bool operator==(const ProcessIdentity&) const = default;

  std::array<char, 36> boot{};  // of the machine's kernel
  std::uint64_t id_namespace = 0;
  std::int64_t id = 0;  // within that namespace
};

/// Notices when another process of this machine ends, even one that nobody has waited for yet. Of
/// other machines and namespaces, and without pidfds in the kernel, it says nothing.
class WatchedProcess {
 public:
  explicit WatchedProcess(const ProcessIdentity& process);
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;
  ~WatchedProcess();

  bool ended() const;

  /// Whether the kernel lets this process take its descriptors.
  bool lets_take() const;
  /// The descriptor of that number over there, as one of this process; -1: there is none to take.
  int take(int number) const;

 private:
  int descriptor_ = -1;
  bool never_found_ = false;
};

}  // namespace ringspan::comm::processes
