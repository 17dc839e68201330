// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/arguments.hpp"

#include <set>

namespace ringspan::comm {
namespace {

void require_peer(std::string_view operation, int peer, int size) {
  RINGSPAN_REQUIRE(peer >= 0 && peer < size, operation, ": rank ", peer,
                   " is not one of the group's 0 to ", size - 1);
}

}  // namespace

void require_valid(std::string_view operation, std::span<const Send> sends,
                   std::span<const Recv> recvs, int size, bool lends) {
  for (const Send& send : sends) {
    require_peer(operation, send.to, size);
    require_inside(send.slice);
  }
  for (const Recv& recv : recvs) {
    require_peer(operation, recv.from, size);
    const bool may_be_empty = recv.rebind && lends;
    if (recv.slice.buffer || !may_be_empty) require_inside(recv.slice);
  }
}

void require_valid_group(std::span<const int> ranks, int own, int size) {
  const std::set<int> distinct(ranks.begin(), ranks.end());
  RINGSPAN_REQUIRE(distinct.size() == ranks.size(), "group: a rank appears twice");
  RINGSPAN_REQUIRE(distinct.count(own) == 1, "group: the calling rank ", own,
                   " must be one of its ranks");
  for (const int rank : ranks) require_peer("group", rank, size);
}

}  // namespace ringspan::comm
