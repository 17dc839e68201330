// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "bench/ask/point.hpp"
#include "bench/gpu_machine.hpp"
#include "bench/hosts.hpp"

namespace ringspan::bench {

/// Throws invalid_argument if a point that is not simulated takes more than its machines or its GPU
/// (where one is known) have. Asked before anything whose own size grows with the point's, as
/// sampled documents do.
void require_memory(const Point& point, const Hosts& hosts, const std::optional<GpuMachine>& gpu);

}  // namespace ringspan::bench
