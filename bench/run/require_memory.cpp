// SPDX-License-Identifier: Apache-2.0
#include "bench/run/require_memory.hpp"

#include <cmath>

#include "bench/run/bytes_needed.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {

void require_memory(const Point& point, const Hosts& hosts, const std::optional<GpuMachine>& gpu) {
  const double bytes = bytes_needed(point);
  const std::string takes = concat(point.schedule, ": inputs, outputs and buffers take ");
  if (point.device != "cuda") {
    hosts.require_memory(point.transport, point.ranks, bytes, takes);
    return;
  }
  const double bytes_per_rank = bytes / static_cast<double>(point.ranks);
  RINGSPAN_REQUIRE(!gpu || bytes_per_rank <= static_cast<double>(gpu->memory_bytes), takes,
                   std::ceil(bytes_per_rank / (1 << 30)), " GiB of a rank; the GPU has ",
                   gpu->memory_bytes >> 30);
}

}  // namespace ringspan::bench
