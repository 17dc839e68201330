// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/option.hpp"

namespace ringspan::bench {

inline constexpr OptionEntry kInfoOptions[] = {
    {"--peak", "measure the peak of fused multiply-adds", true},
    {"--json", "print JSON", true},
};

struct InfoOptions {
  bool peak = false;  // measure the fused multiply-adds of one core too, which takes a moment
  bool json = false;
};

}  // namespace ringspan::bench
