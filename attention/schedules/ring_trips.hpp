// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "attention/schedules/gradient_ring.hpp"
#include "attention/schedules/kv_block.hpp"
#include "attention/schedules/query_block.hpp"
#include "attention/schedules/ring_place.hpp"
#include "comm/double_ring.hpp"

namespace ringspan::attention {

/// Bytes of one token of what travels, and of its gradient.
struct TokenBytes {
  std::int64_t block, gradient;
};

inline TokenBytes token_bytes(const Shape& shape, Travelling travelling) {
  if (travelling == Travelling::q) {
    return {QueryFormat{shape}.bytes(1), GradientFormat::of_q(shape).bytes(1)};
  }
  return {KvFormat{shape, shape.dtype}.bytes(1), GradientFormat::of_kv(shape).bytes(1)};
}

/// A block on its way around one ring: the hops that it makes there, and its size.
struct Trip {
  int hops;
  std::int64_t tokens;
};

/// The blocks that one rank of a ring has to do with while `here` is so many places from home.
struct Trips {
  int at;
  Trip here, coming, own;

  comm::DoubleRing::Bytes hop(const TokenBytes& bytes) const {
    return {at < here.hops ? here.tokens * bytes.block : 0,
            at < coming.hops ? coming.tokens * bytes.block : 0};
  }

  /// The gradient follows `here`, and goes home at the end; at home that is `own`'s.
  GradientRing::Move gradient(const TokenBytes& bytes, int rank, int ranks,
                              comm::Direction direction = comm::Direction::to_next) const {
    const int onwards = direction == comm::Direction::to_next ? 1 : -1;
    const auto further = [&](int places) { return (rank + onwards * places + ranks) % ranks; };
    GradientRing::Move move;
    if (here.hops > 0 && at <= here.hops) {
      move.sent = here.tokens * bytes.gradient;
      move.sent_to = further(at < here.hops ? 1 : -at);
    }
    if (at < coming.hops) move.received = coming.tokens * bytes.gradient;
    if (own.hops > 0 && at == own.hops) {
      move.home = own.tokens * bytes.gradient;
      move.home_from = further(at);
    }
    return move;
  }
};

}  // namespace ringspan::attention
