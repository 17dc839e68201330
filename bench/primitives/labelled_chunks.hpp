// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"

namespace ringspan::bench {

/// What an all-to-all sends and receives: in the buffers of the setting, chunk after chunk.
class LabelledChunks {
 public:
  /// Bytes that a rank sends to the one `distance` ranks after it, around the ring.
  using Sizes = std::function<std::int64_t(int distance)>;
  LabelledChunks(const Setting& setting, const Sizes& sizes);

  std::int64_t bytes() const;  // that a rank sends, those to itself included
  const std::vector<comm::Slice>& send() const { return send_; }
  const std::vector<comm::Slice>& recv() const { return recv_; }

  /// Labels what is sent, runs the exchange and counts the wrong elements.
  std::int64_t checked(const std::function<void()>& exchange) const;

 private:
  Labels labels_;
  int rank_;
  std::vector<comm::Slice> send_, recv_;  // [peer]
};

LabelledChunks equal_chunks(const Setting& setting);

}  // namespace ringspan::bench
