// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringspan::bench {

/// The first GPU of this machine, which stands for all of them.
struct GpuMachine {
  std::string name;  // for the CSV, in the driver's words: "NVIDIA H100 80GB HBM3 (sm_90)"
  std::int64_t memory_bytes = 0;
};

/// None: there is no GPU, or no driver.
std::optional<GpuMachine> gpu_machine();

/// Why there is none.
std::string why_no_gpu();

}  // namespace ringspan::bench
