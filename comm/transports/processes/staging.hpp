// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <vector>

#include "comm/buffer.hpp"

namespace ringspan::comm::processes {

/// Host memory for packed messages, used again once its last holder has let go of it.
class Staging {
 public:
  Buffer take(std::int64_t bytes) {
    const auto fits = [=](const Buffer& buffer) {
      return buffer.bytes() >= bytes && buffer.sole_owner();
    };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found != free_.end()) return *found;
    const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
    constexpr std::align_val_t kAlignment{64};
    auto* data = static_cast<std::byte*>(::operator new(size, kAlignment));
    return free_.emplace_back(data, size, [=] { ::operator delete(data, kAlignment); });
  }

 private:
  std::vector<Buffer> free_;
};

}  // namespace ringspan::comm::processes
