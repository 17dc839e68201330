// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/nccl/pairs.hpp"

namespace ringspan::comm::nccl {
namespace {

diagnosis::Half of_number(diagnosis::Half half, std::int64_t number) {
  half.number = number;
  return half;
}

}  // namespace

std::int64_t Pairs::add(const Key& key, const diagnosis::Half& half, bool sends,
                        std::optional<Error>& wrong) {
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_[key];
  (sends ? lane.sent : lane.awaited).push_back(half);
  const std::int64_t place = sends ? lane.sends++ : lane.recvs++;
  if (!wrong) wrong = compare(key);
  return place;
}

bool Pairs::has_met(const Key& key, bool sends, std::int64_t place) const {
  const std::lock_guard lock(mutex_);
  const Lane& lane = lanes_.at(key);
  return (sends ? lane.recvs : lane.sends) > place;
}

std::optional<Error> Pairs::compare(const Key& key) {
  Lane& lane = lanes_[key];
  if (lane.sent.empty() || lane.awaited.empty()) return {};
  const diagnosis::Half sender = lane.sent.front(), receiver = lane.awaited.front();
  lane.sent.pop_front();
  lane.awaited.pop_front();
  if (auto error = diagnosis::disagreement(sender, receiver)) return error;
  if (!strict_ && sender.number == receiver.number) return {};
  // What is told is of the message with the lower number: both have posted their halves of it.
  if (receiver.number < sender.number) {
    const auto earlier = waiting(key, &Lane::sent, receiver.number);
    const auto of_receiver = [&] { return std::optional(receiver); };
    if (earlier)
      return diagnosis::disorder(*earlier, of_number(receiver, sender.number), of_receiver);
  }
  return diagnosis::disorder(sender, receiver,
                             [&] { return waiting(key, &Lane::awaited, sender.number); });
}

// A half of message `number` between the two that has not met the other, in whatever group.
std::optional<diagnosis::Half> Pairs::waiting(const Key& key, Halves Lane::*side,
                                              std::int64_t number) const {
  for (const auto& [other, lane] : lanes_) {
    if (std::get<0>(other) != std::get<0>(key) || std::get<1>(other) != std::get<1>(key)) continue;
    for (const diagnosis::Half& half : lane.*side)
      if (half.number == number) return half;
  }
  return {};
}

}  // namespace ringspan::comm::nccl
