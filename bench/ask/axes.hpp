// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringspan::bench {

/// The text of one axis, as the command line and configuration files give it, cut into its values.
/// All functions throw invalid_argument with one line that begins with the option.

/// "1,2,4", "4Ki:64Ki:x2" (times 2), "1:8:+1" (plus 1), or a mix. Ki, Mi and Gi are powers of 1024.
std::vector<std::int64_t> integers(std::string_view option, std::string_view text,
                                   std::int64_t least);

/// A comma list without empty items.
std::vector<std::string> items(std::string_view option, std::string_view text);

/// A comma list of known names.
std::vector<std::string> names(std::string_view option, std::string_view text,
                               std::span<const std::string_view> known);

/// A comma list of masks. Document lengths hold commas too, so an item that begins with a digit
/// belongs to the mask before it: "full,documents:5,3+causal" is two masks.
std::vector<std::string> masks(std::string_view option, std::string_view text);

/// A finite number, at least `least` (above it, if `exclusive`).
double number(std::string_view option, std::string_view text, double least, bool exclusive = false);

}  // namespace ringspan::bench
