// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/transports/simulated/platform.hpp"

namespace ringspan::comm::simulated {

/// The messages that are on their way, sharing links max-min fairly. Where all that share a link
/// with each other go between the same two ports, as in rings, their rates follow from the
/// narrowest link alone and are reckoned here, which is several times as fast; all others are
/// SimGrid's. A message may move from the one to the other.
class Flows {
 public:
  explicit Flows(Platform& platform);

  /// Moves more than zero bytes, no faster than that. `arrived` stays where it is until it is
  /// called.
  void start(const Place& from, const Place& to, double bytes, double most_bytes_per_second,
             const Call& arrived);

 private:
  using Ports = std::pair<int, int>;
  struct Flow {
    double bytes;  // left
    double most_bytes_per_second;
    const Call* arrived;
    double rate = 0;
  };

  /// The flows between two ports while they share links with no others.
  struct Pair {
    void add(const Flow& flow);
    std::vector<Flow> take();
    void advance();
    void set_rates();
    void end();

    Flows* all;
    Ports ports;
    double bytes_per_second;  // of the narrowest link
    std::vector<Flow> flows = {};
    double since = 0;  // when their bytes were true
    Platform::Timer* timer = nullptr;
  };

  /// A flow of SimGrid's.
  struct Shared {
    void end();

    Flows* all;
    Ports ports;
    const Call* arrived;
    Call ended = Call::to<&Shared::end>(this);
  };

  template <typename Each>
  void for_each_link(const Ports& ports, const Each& each) const;
  Pair& pair(const Ports& ports);
  void share(const Ports& ports, const Flow& flow);

  Platform& platform_;
  std::unordered_map<std::uint64_t, Pair> pairs_;  // [both ports]
  std::vector<Pair*> owner_;                       // [link]: whose flows are the only ones, if so
  std::vector<int> shared_;                        // [link]: how many of SimGrid's cross it
};

}  // namespace ringspan::comm::simulated
