// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "attention/kernels.hpp"
#include "comm/devices/host.hpp"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/attention/oracle.hpp"

namespace ringspan::attention {

/// One rank's tensors, results as a schedule would prepare them.
struct CpuRank {
  CpuRank(comm::Device& device, const Problem& problem, const Shard& shard,
          const OracleInputs& whole);

  Partial partial() const { return {partial_out, max, sum}; }

  Shard shard;
  std::vector<std::int64_t> tokens;
  Tensor q, k, v, d_out;
  Tensor partial_out, max, sum;
  Tensor out, lse, delta, dq, dk, dv;
};

std::vector<CpuRank> make_ranks(comm::Device& device, const Problem& problem,
                                const OracleInputs& in, LayoutKind layout = LayoutKind::contiguous,
                                int ranks = 1);

/// Queries of a rank over the keys of another.
void forward(Kernels& kernels, const Problem& problem, const CpuRank& rank, const CpuRank& keys);

/// What a ring of ranks would compute, one rank after the other.
void run(Kernels& kernels, const Problem& problem, const std::vector<CpuRank>& ranks);

void expect_close(const std::vector<CpuRank>& ranks, const OracleResults& expected);

/// While it lives, kernels are made for this instruction set.
struct ChosenTarget {
  explicit ChosenTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ChosenTarget(const ChosenTarget&) = delete;
  ChosenTarget& operator=(const ChosenTarget&) = delete;
  ~ChosenTarget() { hwy::SetSupportedTargetsForTest(0); }
};

std::unique_ptr<Kernels> prepared_cpu_kernels(comm::Device& device, const Shape& shape);

/// Runs with one of the machine's instruction sets.
class CpuKernelsTest : public testing::TestWithParam<std::int64_t> {
 protected:
  std::unique_ptr<Kernels> prepared(const Shape& shape) {
    return prepared_cpu_kernels(*device_, shape);
  }

  const ChosenTarget chosen_{GetParam()};
  std::unique_ptr<comm::Device> device_ = comm::make_host_device(true);
};

/// Each of them, and its name.
inline auto instruction_sets() { return testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }
inline std::string instruction_set_name(const testing::TestParamInfo<std::int64_t>& target) {
  return hwy::TargetName(target.param);
}

}  // namespace ringspan::attention
