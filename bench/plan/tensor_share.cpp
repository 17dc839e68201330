// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/tensor_share.hpp"

#include <algorithm>

namespace ringspan::bench {

comm::Cluster tensor_share(const comm::Cluster& cluster, int tensor) {
  const int gpus = cluster.gpus_per_node;
  comm::Cluster share = cluster;
  share.gpus_per_node = gpus / tensor;

  // Behind a link of n GPUs are min(n, tensor) of those who share it.
  comm::NodeFabric& fabric = share.fabric;
  fabric.switch_bytes_per_second /= std::min(fabric.gpus_per_switch, tensor);
  fabric.gpus_per_switch = std::max(fabric.gpus_per_switch / tensor, 1);
  fabric.socket_bytes_per_second /= std::min(gpus / fabric.numa_domains, tensor);
  fabric.numa_domains = std::min(fabric.numa_domains, share.gpus_per_node);

  if (cluster.nodes == 1) return share;  // of which a network need not be described
  comm::Network& network = share.network;
  network.adapter_bytes_per_second /= std::min(gpus / network.adapters_per_node, tensor);
  network.adapters_per_node = std::min(network.adapters_per_node, share.gpus_per_node);
  return share;
}

}  // namespace ringspan::bench
