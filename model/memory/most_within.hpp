// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace ringspan::model {

/// The largest count (of tokens, or of samples) whose bytes are within `limit`; 0 if not even one's
/// are. `bytes` does not decrease.
std::int64_t most_within(double limit, const std::function<double(std::int64_t)>& bytes);

}  // namespace ringspan::model
