// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/transports/processes/watched_process.hpp"
#include "comm/transports/ucx/addresses.hpp"

namespace ringspan::comm::ucx {

/// The active messages of a wire. Each begins with the sender's rank, an int.
enum class Words : unsigned { notice = 1, goodbye = 2 };

/// This rank's way to another one.
class Peer {
 public:
  /// Begins to connect and returns at once.
  Peer(ucp_worker_h worker, int own_rank, int rank, const Address& address);
  Peer(const Peer&) = delete;  // UCX knows where it is
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(); }

  int rank() const { return rank_; }
  ucp_ep_h endpoint() const { return endpoint_; }  // null when closed

  /// Whether its process is still there, where that can be seen.
  void look();
  /// See Wire.
  const std::string& lost() const { return lost_; }
  bool send_notice(std::span<const std::byte> bytes) { return say(Words::notice, bytes); }

  /// Tells it that this rank sends nothing more, and hears the same. True once both are over.
  bool part();
  void hear_goodbye() { heard_goodbye_ = true; }

  /// Lets go without asking the other side, which may be gone; what is under way ends.
  void close();

  /// Throws what it means that a message ended with this status.
  [[noreturn]] void throw_failed(ucs_status_t status) const;

 private:
  bool say(Words words, std::span<const std::byte> bytes);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const int own_rank_;
  const int rank_;
  const processes::WatchedProcess process_;
  ucp_ep_h endpoint_ = nullptr;
  std::string lost_;
  std::vector<std::byte> notice_;  // while it is under way
  ucs_status_ptr_t sending_ = nullptr;
  bool said_goodbye_ = false, heard_goodbye_ = false;
};

}  // namespace ringspan::comm::ucx
