// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/transports/streams/link.hpp"
#include "comm/transports/streams/machines.hpp"

namespace ringspan::comm::streams {

/// Where one machine's relay can be called, as all others are told.
struct Contact {
  /// As connect() takes it.
  struct Address {
    std::array<std::byte, sizeof(sockaddr_in6)> bytes = {};
    std::uint32_t length = 0;
  };
  static constexpr std::size_t kMost = 16;  // machines have an address for every adapter

  std::array<std::uint64_t, 2> secret = {};  // which nobody else can know
  std::array<Address, kMost> addresses = {};
  std::uint32_t count = 0;
};

/// Where the relays of all machines connect, each with each. They are called at all addresses that
/// they have, but those of the loopback where there are others, and what answers first and knows
/// the secret is theirs: addresses may lead elsewhere, or nowhere.
class Rendezvous {
 public:
  /// Listens. Throws system.
  Rendezvous();

  const Contact& contact() const { return contact_; }

  /// [machine], for the relay of `own`; null for itself. `contacts` are by machine, too. Throws
  /// timeout, with the names of those with which there is no connection after so many seconds.
  std::vector<std::unique_ptr<Link>> meet(const Machines& machines, int own,
                                          const std::vector<Contact>& contacts, double deadline);

 private:
  void listen(int family);

  Socket listener_;
  Contact contact_;
};

}  // namespace ringspan::comm::streams
