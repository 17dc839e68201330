// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/ask/validate_options.hpp"

namespace ringspan::bench {

/// Predicts published tables and prints how far off it is. The exit status; throws invalid_argument
/// for bad input, with nothing simulated. After an interrupt that the caller has
/// caught, finished tables are kept.
int validate(const ValidateOptions& options);

}  // namespace ringspan::bench
