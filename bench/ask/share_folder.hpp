// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>

namespace ringspan::bench {

/// Where what comes with the programs is: they lie in bin beside share, in a build as when
/// installed.
inline std::filesystem::path share_folder() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path() /
         "share" / "ringspan";
}

}  // namespace ringspan::bench
