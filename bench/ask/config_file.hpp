// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/ask/sweep_options.hpp"

namespace ringspan::bench {

/// The options of a TOML file: `seq = "4Ki:64Ki:x2"`, `ranks = [1, 2]`, `check = true`. Throws
/// invalid_argument with one line that names the file and the line.
OptionTexts read_config(const std::string& path);

}  // namespace ringspan::bench
