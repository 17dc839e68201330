// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/ask/point.hpp"
#include "bench/machine.hpp"

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

/// Where a point ran, for rows and traces: its world if it is simulated, else the GPU if it is for
/// one, else the machine.
std::string machine_name(const Point& point, const std::optional<GpuMachine>& gpu,
                         const Machine& machine);

}  // namespace ringspan::bench
