// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/info_options.hpp"

namespace ringspan::bench {

/// Prints what this build and this machine can do.
void info(const InfoOptions& options);

}  // namespace ringspan::bench
