// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/published_files.hpp"

#include <algorithm>
#include <filesystem>

#include "bench/ask/share_folder.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

namespace fs = std::filesystem;

std::vector<std::string> published_files(const std::vector<std::string>& given) {
  const std::string own = (share_folder() / "published").string();
  std::vector<std::string> files;
  for (const std::string& path : given.empty() ? std::vector{own} : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".csv") inside.push_back(entry.path().string());
    }
    RINGSPAN_REQUIRE(!inside.empty(), "--published: there is no CSV in ", path);
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace ringspan::bench
