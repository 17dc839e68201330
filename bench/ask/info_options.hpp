// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

struct InfoOptions {
  bool peak = false;  // measure the fused multiply-adds of one core too, which takes a moment
  bool json = false;
};

}  // namespace ringspan::bench
