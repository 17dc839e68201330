// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ringspan::bench {

/// The files that --published names; of a folder all its CSVs, by name. Without any, those that
/// come with the program. Throws invalid_argument for a folder that has none.
std::vector<std::string> published_files(const std::vector<std::string>& given);

}  // namespace ringspan::bench
