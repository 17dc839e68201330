// SPDX-License-Identifier: Apache-2.0
// The kernels of GPUs, as the schedules call them, against the fp64 oracle.
#include "attention/kernels.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "comm/error.hpp"
#include "gtest/gtest.h"
#include "tests/attention/local_case.hpp"
#include "tests/gpu/gpu.hpp"

namespace ringspan::attention {
namespace {

std::vector<LocalCase> small_cases() {
  constexpr DType bf16 = DType::bf16, f16 = DType::f16;
  return {
      {"one_token", 1, {1, 2, 1, 64, 64, bf16}, "causal"},
      {"narrow", 37, {2, 4, 2, 6, 10, f16}, "causal"},
      {"full_64", 70, {2, 2, 1, 64, 64, f16}, "full"},
      {"head_dim_72", 67, {1, 2, 1, 72, 72, bf16}, "window:20:3"},
      {"causal_128", 66, {1, 4, 2, 128, 128, bf16}, "causal"},
      {"softcap", 66, {1, 2, 2, 128, 64, f16}, "causal", 2.0},
      {"striped", 91, {1, 4, 1, 16, 24, bf16}, "causal", {}, 3, LayoutKind::striped},
      {"documents",
       120,
       {1, 2, 1, 24, 16, f16},
       "documents+causal+window:40",
       {},
       2,
       LayoutKind::zigzag,
       {1, 1, 50, 0, 7, 1, 30, 20}},
  };
}

// What takes the emulation too long: many blocks, long rows, full occupancy.
std::vector<LocalCase> large_cases() {
  constexpr DType bf16 = DType::bf16, f16 = DType::f16;
  return {
      {"long_causal", 1031, {2, 8, 2, 128, 128, bf16}, "causal"},
      {"long_full", 1024, {1, 4, 4, 64, 64, f16}, "full"},
      {"long_zigzag", 999, {1, 6, 3, 128, 64, bf16}, "causal", {}, 4, LayoutKind::zigzag},
      {"head_dim_256", 515, {1, 2, 1, 256, 160, bf16}, "causal"},
      {"long_window", 1500, {1, 4, 1, 96, 96, f16}, "window:300:7", {}, 2, LayoutKind::striped},
  };
}

/// Of a family by name: skipped, with the reason, where this machine or build lacks it. Cases that
/// it refuses are recorded by name.
class GpuKernelsTest : public testing::TestWithParam<std::string> {
 protected:
  void check_all(const std::string& figure, const std::vector<LocalCase>& cases) {
    int checked = 0;
    std::int64_t library_tiles = 0;
    std::string refused;
    for (const LocalCase& c : cases) {
      try {
        library_tiles += check(c);
        ++checked;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument) throw;
        refused += ::ringspan::concat(refused.empty() ? "" : "; ", c.name, ": ", error.what());
      }
    }
    gpu::record(figure, checked);
    if (!refused.empty()) RecordProperty(figure + "_refused", refused);
    EXPECT_GT(checked, 0) << "every case is refused: " << refused;
    if (GetParam() != "cudnn") return;
    gpu::record(figure + "_tiles_of_cudnn", static_cast<double>(library_tiles));
    EXPECT_GT(library_tiles, 0) << "cuDNN has done nothing of this";
  }

  void SetUp() override {
    const std::string reason = gpu::missing(GetParam());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

 private:
  /// How many tiles a vendor's library has done.
  std::int64_t check(const LocalCase& c) {
    SCOPED_TRACE(c.name);
    const Problem problem = c.problem();
    const OracleInputs inputs = random_inputs(problem, 1);
    const LocalResults results = attend(GetParam(), problem, inputs, c.key_blocks(problem));
    expect_close(results, oracle(problem, inputs), problem);
    return results.library_tiles;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, GpuKernelsTest, testing::Values("cuda", "cudnn"),
                         [](const auto& info) { return info.param; });

TEST_P(GpuKernelsTest, MatchesTheOracle) {
  std::vector<LocalCase> cases = small_cases();
  if (gpu::emulated(*gpu::first_gpu())) cases.resize(2);  // where others test the kernels
  check_all(GetParam() + "_cases", cases);
}

TEST_P(GpuKernelsTest, MatchesTheOracleOnLongSequences) {
  if (gpu::emulated(*gpu::first_gpu())) GTEST_SKIP() << "too long for the emulation";
  check_all(GetParam() + "_long_cases", large_cases());
}

TEST_P(GpuKernelsTest, GivesTheSameBitsAgain) {
  const Problem problem{.shape = {1, 4, 2, 64, 64, DType::bf16},
                        .sequence = {gpu::emulated(*gpu::first_gpu()) ? 9 : 700},
                        .mask = parse_mask("causal")};
  const OracleInputs inputs = random_inputs(problem, 2);
  const auto once = [&] { return attend(GetParam(), problem, inputs, one_key_block(problem)); };
  const LocalResults first = once();
  expect_same(first, once());
}

}  // namespace
}  // namespace ringspan::attention
