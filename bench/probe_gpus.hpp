// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/cluster.hpp"
#include "comm/communicator.hpp"

namespace ringspan::bench {

/// What the GPUs of one node do, all of them at once.
struct GpuFigures {
  std::string gpu;  // in the driver's words
  std::int64_t memory_bytes = 0;
  int ranks = 1, gpus = 1, nodes = 1;
  double copy_bytes_per_second = 0;  // copied inside a GPU: read and written
  double issue_seconds = 0;          // of the host, per operation that it queues
  // Of several ranks:
  double hop_seconds = 0;           // of a short message to the next rank
  double hop_bytes_per_second = 0;  // of long ones, each way
};

/// Measures them. Collective, over the ranks of a transport for GPUs.
GpuFigures probe_gpus(const comm::Communicator& comm);

void print(const GpuFigures& figures);

/// The described cluster of these GPUs, one node of it, with what was measured in place of what is
/// described. Throws invalid_argument for GPUs that none of the described clusters has, for ranks
/// that share one, and where there is one rank alone or several nodes.
comm::Cluster cluster_of(const GpuFigures& figures, std::string_view transport);

}  // namespace ringspan::bench
