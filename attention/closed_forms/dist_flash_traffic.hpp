// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/closed_forms.hpp"
#include "attention/closed_forms/exchange_traffic.hpp"
#include "attention/closed_forms/visibility.hpp"

namespace ringspan::attention {

/// What dist_flash makes one rank send in one pass, without the sum of d_sinks.
Traffic dist_flash_forward_traffic(const Shape& shape, const Visibility& visibility,
                                   const Group& group);
Traffic dist_flash_backward_traffic(const Shape& shape, const Visibility& visibility,
                                    const Group& group);

}  // namespace ringspan::attention
