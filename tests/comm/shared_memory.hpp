// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace ringspan::comm {

/// Files and segments of this machine that a dead process of UCX may have left.
inline std::set<std::string> shared_memory() {
  std::set<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (file.path().filename().string().starts_with("ucx_")) found.insert(file.path());
  std::ifstream segments("/proc/sysvipc/shm");
  for (std::string line; std::getline(segments, line);) {
    std::istringstream columns(line);
    std::string key, id, mode, bytes, creator, last_user, attached;
    columns >> key >> id >> mode >> bytes >> creator >> last_user >> attached;
    if (attached == "0") found.insert("segment " + id);
  }
  return found;
}

}  // namespace ringspan::comm
