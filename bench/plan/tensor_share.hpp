// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/cluster.hpp"

namespace ringspan::bench {

/// The cluster as every `tensor`-th GPU of it has it, while the others do the same at the same
/// time: what links they share is divided among them. So one group of sequence-parallel ranks can
/// be simulated for all. `tensor` divides the GPUs of a node.
comm::Cluster tensor_share(const comm::Cluster& cluster, int tensor);

}  // namespace ringspan::bench
