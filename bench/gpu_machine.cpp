// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_machine.hpp"

#include "comm/devices/cuda/api.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

std::optional<GpuMachine> gpu_machine() {
  if (!why_no_gpu().empty()) return std::nullopt;
  const auto cuda = comm::cuda::load_cuda();
  return GpuMachine{comm::cuda::device_name(*cuda, 0), comm::cuda::device_memory(*cuda, 0)};
}

std::string why_no_gpu() {
  try {
    comm::cuda::load_cuda();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string machine_name(const Point& point, const std::optional<GpuMachine>& gpu,
                         const Machine& machine) {
  if (point.simulated()) return std::string(point.world());
  return point.device == "cuda" && gpu ? gpu->name : machine.name();
}

}  // namespace ringspan::bench
