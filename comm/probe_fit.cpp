// SPDX-License-Identifier: Apache-2.0
// What the times of exchanges say about messages.
#include <algorithm>
#include <cmath>

#include "comm/probe.hpp"

namespace ringspan::comm {
namespace {

bool is_short(const TimedExchange& exchange) {
  return static_cast<double>(exchange.bytes) < exchange.messages * LinkCosts::kMedium;
}

/// What each message more takes where so many bytes travel as several messages of `least` bytes or
/// more, but below `most`.
double per_longer_message(std::span<const TimedExchange> exchanges, double least, double most) {
  double more = 0, seconds = 0;
  for (const TimedExchange& several : exchanges) {
    const double bytes = static_cast<double>(several.bytes) / several.messages;
    if (several.messages == 1 || bytes < least || bytes >= most) continue;
    for (const TimedExchange& one : exchanges) {
      if (one.messages > 1 || one.bytes != several.bytes) continue;
      more += several.messages - 1;
      seconds += several.seconds - one.seconds;
    }
  }
  return more > 0 ? seconds / more : 0;
}

}  // namespace

LinkCosts fit(std::span<const TimedExchange> exchanges) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;  // weighted sums over one-message exchanges
  for (const TimedExchange& one : exchanges) {
    if (one.messages != 1) continue;
    const double x = static_cast<double>(one.bytes), weight = 1 / (one.seconds * one.seconds);
    w += weight;
    wx += weight * x;
    wy += weight * one.seconds;
    wxx += weight * x * x;
    wxy += weight * x * one.seconds;
  }
  const double per_byte = std::max((w * wxy - wx * wy) / (w * wxx - wx * wx), 0.0);
  const double first = std::max((wy - per_byte * wx) / w, 0.0);  // message, without its bytes
  double more = 0, seconds = 0;
  for (const TimedExchange& several : exchanges) {
    if (several.messages == 1 || !is_short(several)) continue;
    more += several.messages - 1;
    seconds += several.seconds - first - per_byte * static_cast<double>(several.bytes);
  }
  const double per_message = more > 0 ? std::clamp(seconds / more, 0.0, first) : 0;
  constexpr double kMedium = LinkCosts::kMedium, kLong = LinkCosts::kLong;
  const double medium = std::max(per_longer_message(exchanges, kMedium, kLong) - per_message, 0.0);
  const double longer = per_longer_message(exchanges, kLong, HUGE_VAL) - per_message;
  return {first - per_message, per_message, per_byte, medium, std::max(medium, longer)};
}

}  // namespace ringspan::comm
