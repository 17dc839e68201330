// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/labelled_chunks.hpp"

namespace ringspan::bench {

LabelledChunks::LabelledChunks(const Setting& setting, const Sizes& sizes)
    : labels_(setting.comm), rank_(setting.comm.rank()) {
  const int size = setting.comm.size();
  std::int64_t sent = 0, received = 0;
  for (int peer = 0; peer < size; ++peer) {
    const std::int64_t to = sizes((peer + size - rank_) % size);
    const std::int64_t from = sizes((rank_ + size - peer) % size);
    send_.push_back(comm::slice(setting.first, sent, to));
    recv_.push_back(comm::slice(setting.second, received, from));
    sent += to;
    received += from;
  }
}

std::int64_t LabelledChunks::bytes() const { return send_.back().offset + send_.back().bytes(); }

std::int64_t LabelledChunks::checked(const std::function<void()>& exchange) const {
  const int size = static_cast<int>(send_.size());
  for (int peer = 0; peer < size; ++peer) {
    labels_.write(send_[peer], rank_, peer);
    labels_.clear(recv_[peer]);
  }
  exchange();
  std::int64_t wrong = 0;
  for (int peer = 0; peer < size; ++peer) wrong += labels_.wrong(recv_[peer], peer, rank_);
  return wrong;
}

LabelledChunks equal_chunks(const Setting& setting) {
  const std::int64_t chunk = equal_part(setting, setting.comm.size());
  return {setting, [chunk](int) { return chunk; }};
}

}  // namespace ringspan::bench
