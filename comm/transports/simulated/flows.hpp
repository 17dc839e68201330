// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/transports/simulated/platform.hpp"

namespace ringspan::comm::simulated {

/// The messages that are on their way, sharing links max-min fairly. Where few share links with
/// each other, as in rings and inside a node, their rates are reckoned here, which is several times
/// as fast; where many do, they are SimGrid's, which reckons again only what changes.
class Flows {
 public:
  explicit Flows(Platform& platform);
  ~Flows();

  /// Moves more than zero bytes, no faster than that. `arrived` stays where it is until it is
  /// called.
  void start(const Place& from, const Place& to, double bytes, double most_bytes_per_second,
             const Call& arrived);

 private:
  using Ports = std::pair<int, int>;
  struct Flow {
    Ports ports;
    double bytes;  // left
    double most_bytes_per_second;
    const Call* arrived;
    double rate = 0;
  };
  struct Group;

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
  Group& group();
  void share(const Flow& flow);
  void set_rates(std::vector<Flow>& flows);
  double fair_rate(const Flow& flow) const;

  Platform& platform_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> idle_;    // of these
  std::vector<Group*> owner_;   // [link]: whose flows cross it, if any
  std::vector<int> shared_;     // [link]: how many of SimGrid's cross it
  std::vector<double> left_;    // [link]: bytes per second that set_rates has not given away,
  std::vector<int> crossing_;   // and to how many flows it has given none yet
  std::vector<Flow*> waiting_;  // these flows
};

}  // namespace ringspan::comm::simulated
