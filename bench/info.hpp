// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringspan::bench {

/// Prints what this build and this machine can do. `measure_peak`: the fused multiply-adds of one
/// core too, which takes a moment.
void info(bool measure_peak);

}  // namespace ringspan::bench
