// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/random.hpp"

namespace ringspan::bench {

using model::random_below;
using model::random_bits;
using model::random_fraction;

}  // namespace ringspan::bench
