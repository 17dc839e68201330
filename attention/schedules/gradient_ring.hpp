// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "attention/schedules/gradient_block.hpp"
#include "comm/ring_exchange.hpp"

namespace ringspan::attention {

/// The gradients of travelling blocks (keys and values, or queries) on their way. Each begins at
/// home, follows its block one step behind it, gains a share at every rank that has one, and goes
/// straight home from the last of them: for a full mask that is one more hop around the ring. Where
/// hops copy, three blocks of memory (share, outgoing, incoming) and a fourth if a gradient can
/// come home while another comes by; where they lend, two, because a gradient moves with its
/// memory.
class GradientRing {
 public:
  /// What moves at the end of one step, in bytes; zero is no message. A gradient comes by from the
  /// neighbour behind, and this rank's own may come home.
  struct Move {
    std::int64_t sent = 0, received = 0, home = 0;
    int sent_to = 0, home_from = 0;
  };

  /// How a gradient that comes home gets into its owner's tensors: instead of what is there, or, if
  /// they are accumulators, on top of it.
  enum class Delivery { copied, added };

  /// `moves`: all that start() will be given in one pass. `tokens`: of the largest block.
  GradientRing(comm::Communicator comm, Kernels& kernels, GradientFormat format,
               std::int64_t tokens, std::span<const Move> moves,
               comm::Direction direction = comm::Direction::to_next,
               Delivery delivery = Delivery::copied);
  GradientRing(const GradientRing&) = delete;  // a hop in flight may rebind a buffer in here
  GradientRing& operator=(const GradientRing&) = delete;

  /// A new pass. This rank's own gradient gets into `own`, which holds zeros, when it is complete.
  void begin(GradientBlock own) { own_ = std::move(own); }

  /// Zeros, for this rank's share of the gradient of the block in use (of so many tokens).
  GradientBlock share(std::int64_t tokens);

  /// Adds the share to the gradient of the block in use; at its owner the share begins it.
  void add_share();

  void start(const Move& move);
  void finish();

 private:
  comm::Buffer take();
  void fill_with_zeros(const comm::Buffer& block, std::int64_t bytes);
  void deliver(comm::Buffer gradient);

  comm::Communicator comm_;
  Kernels& kernels_;
  GradientFormat format_;
  comm::Direction direction_;
  Delivery delivery_;
  GradientBlock own_;
  std::int64_t share_tokens_ = 0;
  std::vector<comm::Buffer> free_;
  comm::Buffer share_, held_, outgoing_, incoming_, home_;
  comm::Request in_flight_;  // last: goes before the buffers it uses
};

}  // namespace ringspan::attention
