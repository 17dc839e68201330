// SPDX-License-Identifier: Apache-2.0
// The command on emulated GPUs, of which several processes have one each.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "tests/bench/mpirun_command.hpp"

namespace ringspan::bench {
namespace cli_gpu_processes_test {

class CliGpuProcessesTest : public MpirunCommandTest {
 protected:
  /// So many processes, which find the emulated driver and NCCL.
  void use_gpus(int count) {
    use(count);
    launcher_.insert(launcher_.begin(), {"/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES",
                                         "LD_LIBRARY_PATH=" RINGSPAN_EMULATION});
  }
};

TEST_F(CliGpuProcessesTest, RanksOnGpusMayBeProcesses) {
  use_gpus(2);
  const Outcome outcome = tiny({"--transport", "nccl,cuda_ipc", "--schedule", "zigzag", "--ranks",
                                "1,2", "--pass", "both", "--check", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")], "ok");
    EXPECT_EQ(row[column("world")], "gpu");
    EXPECT_EQ(row[column("machine")], "Emulated GPU (sm_90)");
    EXPECT_NE(row[column("max_abs_error")], "");
  }
}

TEST_F(CliGpuProcessesTest, AllSayThatOneHasNoGpu) {
  use_gpus(2);
  launcher_.insert(launcher_.end(), {"/bin/sh", "-c",
                                     "[ $OMPI_COMM_WORLD_RANK = 0 ] || export "
                                     "CUDA_VISIBLE_DEVICES=; exec \"$@\"",
                                     "sh"});
  const Outcome outcome = tiny({"--transport", "nccl,cuda_ipc", "--schedule", "ring,zigzag",
                                "--ranks", "2", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 1);
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 4u);
  for (const Cells& row : rows) {
    EXPECT_EQ(row[column("status")],
              concat("transport '", row[column("transport")], "': process 1: no CUDA device"));
  }
}

// Under a launcher of one, as in a batch script.
TEST_F(CliGpuProcessesTest, RanksOnGpusAreThreadsOfAProcessThatIsAlone) {
  use_gpus(1);
  const Outcome outcome =
      tiny({"--transport", "nccl,cuda_ipc", "--schedule", "ulysses", "--all-to-all", "automatic",
            "--ranks", "2", "--check", "--csv", path("a.csv")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  ASSERT_EQ(rows.size(), 2u);
  for (const Cells& row : rows) EXPECT_EQ(row[column("status")], "ok");
  EXPECT_FALSE(std::filesystem::exists(path("a.costs.json"))) << "probed in one address space";
}

}  // namespace cli_gpu_processes_test
}  // namespace ringspan::bench
