// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/batch.hpp"
#include "comm/communicator.hpp"

namespace ringspan::attention {

/// Blocks of one kind that go from each rank to another one and come from a third, others at every
/// step: the memory that they are sent from and received in. Where hops lend, what has come is its
/// sender's, who waits until nobody reads what it is about to overwrite.
///   per step: write() if there is anything new, add_to(batch), and once that is done receive();
///   end().
class BlockExchange {
 public:
  /// So many blocks of so many tokens, in use at the same time.
  struct Blocks {
    int count = 1;
    std::int64_t tokens = 0;
  };

  BlockExchange(comm::Communicator comm, std::int64_t bytes_per_token, Blocks sent,
                Blocks received);
  BlockExchange(const BlockExchange&) = delete;  // a batch may rebind a buffer in here
  BlockExchange& operator=(const BlockExchange&) = delete;

  /// The block that is sent from now on, to be written.
  std::byte* write();

  /// In tokens; none are no message.
  void add_to(comm::Batch& batch, int to, std::int64_t sent, int from, std::int64_t received);

  /// Makes what the batch brought the block that is held.
  void receive();
  /// Throws aborted if nothing has come, which only a request that was given up leaves undone.
  std::byte* held() const;

  /// After a pass: lets go of what came, for its owner to write again.
  void end();

 private:
  comm::Communicator comm_;
  std::int64_t bytes_per_token_;
  std::vector<comm::Buffer> sent_;      // the one written last comes first
  std::vector<comm::Buffer> received_;  // the one that is held comes first, what comes in last
};

}  // namespace ringspan::attention
