// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/command.hpp"

namespace ringspan::bench {

/// Each test has mpirun start several processes of the command, of which none may be left.
class MpirunCommandTest : public CommandTest {
 protected:
  static void SetUpTestSuite() {
    for (const char* setting :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
          "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"}) {
      setenv(setting, "1", 1);
    }
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    setenv("MPIEXEC_TIMEOUT", "60", 1);
  }

  ~MpirunCommandTest() override { EXPECT_EQ(processes(), std::vector<pid_t>()) << "are left"; }

  void use(int count) { launcher_ = {RINGSPAN_MPIEXEC, "-n", std::to_string(count)}; }

  /// Processes of the command started here, of one rank or of all.
  std::vector<pid_t> processes(int rank = -1) const {
    std::vector<pid_t> found;
    const auto holds = [](const std::filesystem::path& file, const std::string& text) {
      std::ostringstream content;
      content << std::ifstream(file).rdbuf();
      return content.str().find(text) != std::string::npos;
    };
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos) {
        continue;
      }
      const bool ours = holds(entry.path() / "cmdline", folder_) &&
                        holds(entry.path() / "environ",
                              rank < 0 ? "" : concat("OMPI_COMM_WORLD_RANK=", rank, '\0'));
      if (ours) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }
};

}  // namespace ringspan::bench
