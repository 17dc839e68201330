// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "comm/transports/streams/lanes.hpp"
#include "comm/transports/streams/link.hpp"
#include "comm/transports/streams/shared_hub.hpp"

namespace ringspan::comm::streams {

/// Tells all other machines how the processes of this one are and what they have posted for ranks
/// there, and writes what it hears of others into the memory of this one: a thread of its first
/// process. What ends waits is told within milliseconds, heartbeats several times per deadline.
class Relay {
 public:
  /// `links` are [machine]. The processes that share the hub are watched already.
  Relay(std::shared_ptr<SharedHub> hub, std::shared_ptr<Lanes> lanes, int machine,
        std::vector<std::unique_ptr<Link>> links);
  /// Tells the last, and gives the others a moment to do so.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

 private:
  using Frame = std::vector<std::byte>;

  void run();
  void turn();
  void sleep();
  void part();

  void tell();
  void tell_all(const Frame& frame);
  std::vector<Frame> reports();
  std::vector<std::pair<int, Frame>> halves();  // each for a machine

  void hear(int machine);
  bool take(int machine, std::span<const std::byte> frame);
  bool take_half(int machine, std::span<const std::byte> content);
  void take_report(int machine, std::span<const std::byte> content);
  std::int64_t translated(int machine, std::int64_t group) const;

  const std::shared_ptr<SharedHub> hub_;
  const std::shared_ptr<Lanes> lanes_;
  const int machine_;
  const std::int64_t interval_;  // ns, between reports of what need not be told at once
  std::vector<std::unique_ptr<Link>> links_;  // [machine]; none to itself and those cut off
  // [machine], what poll() has said: worth to be heard now
  std::vector<char> ready_;
  std::vector<char> broken_;  // [machine], that has told nonsense: nothing of it counts
  std::vector<std::vector<std::int64_t>> translation_;  // [machine][its group] -> group here
  std::vector<std::uint64_t> states_;                   // told, [member of this machine]
  std::int64_t reported_at_ = 0;                        // ns
  std::uint32_t groups_told_ = 0;
  bool failure_told_ = false;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace ringspan::comm::streams
