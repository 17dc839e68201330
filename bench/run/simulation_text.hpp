// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/run/measure.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

/// What processes that simulate a point tell, as JSON. Numbers keep every bit.
std::string text(const Measurement& measurement);
std::string text(const Error& failure);
/// Throws the failure if it is one.
Measurement measurement(const std::string& text);

}  // namespace ringspan::bench
