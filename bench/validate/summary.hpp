// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "bench/validate/validation.hpp"

namespace ringspan::bench {

/// A table for a person: scores of both models, what is left out and why, what numbers it rests on.
std::string summary(const Validation& validation);

/// "3 rows: why", a line for each reason.
std::string summary(std::span<const Omission> omissions);

}  // namespace ringspan::bench
