// SPDX-License-Identifier: Apache-2.0
// What a profiler is told of a schedule on GPUs, by one that keeps it.
#include "comm/nvtx.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/attention/schedule_run.hpp"

extern "C" const char* emulation_ranges();

namespace ringspan::attention {
namespace {

TEST(NvtxRangeTest, NamesWhatAScheduleComputesCopiesAndSends) {
  setenv("NVTX_INJECTION64_PATH", RINGSPAN_EMULATED_NVTX, 1);  // before the first range
  const Problem problem = make_problem(
      "causal", 24,
      {.heads = 4, .kv_heads = 2, .head_dim = 8, .value_dim = 8, .dtype = DType::bf16});
  const OracleInputs inputs = random_inputs(problem, 3);
  comm::launch("nccl", {.ranks = 2, .deadline = 200}, [&](const comm::Communicator& comm) {
    const auto kernels = make_kernels("cuda", comm.device());
    for (const char* name : {"zigzag", "ulysses"}) {
      const auto schedule = make_schedule(name, comm, *kernels);
      const RankTensors tensors(comm.device(), problem, schedule->shard(problem.sequence), inputs);
      run_rank(*schedule, problem, tensors);
    }
    comm.device().synchronize(20);
  });
  const std::string ranges = emulation_ranges();
  for (const char* name : {"attention_forward", "attention_backward", "delta", "finalize", "copy",
                           "accumulate", "fill", "ring_exchange", "all_to_all"})
    EXPECT_NE(ranges.find(std::string(" ") + name + "("), std::string::npos)
        << name << " is not in" << ranges;
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), '('),
            std::count(ranges.begin(), ranges.end(), ')'));
}

}  // namespace
}  // namespace ringspan::attention
