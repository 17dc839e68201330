// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/tensor_share.hpp"

#include <algorithm>
#include <numeric>

namespace ringspan::bench {
namespace {

/// Links that were `before` of these, and are `after` for each of `tensor` shares: all that shares
/// have together is what there was.
double divided(double bytes_per_second, int before, int after, int tensor) {
  return bytes_per_second * before / (static_cast<double>(tensor) * after);
}

}  // namespace

// A share of 3 GPUs from two domains of 3 has two of one and one of the other. A cluster has equal
// parts only, so it is taken as fewer of them, each with a faster link.
comm::Cluster tensor_share(const comm::Cluster& cluster, int tensor) {
  const int gpus = cluster.gpus_per_node, own = gpus / tensor;
  comm::Cluster share = cluster;
  share.gpus_per_node = own;

  const comm::NodeFabric& whole = cluster.fabric;
  comm::NodeFabric& fabric = share.fabric;
  fabric.numa_domains = std::gcd(whole.numa_domains, own);
  fabric.socket_bytes_per_second =
      divided(whole.socket_bytes_per_second, whole.numa_domains, fabric.numa_domains, tensor);
  const bool one_switch = whole.gpus_per_switch == gpus;  // and then domains do not matter
  fabric.gpus_per_switch =
      one_switch ? own
                 : std::gcd(std::max(whole.gpus_per_switch / tensor, 1), own / fabric.numa_domains);
  fabric.switch_bytes_per_second =
      divided(whole.switch_bytes_per_second, gpus / whole.gpus_per_switch,
              own / fabric.gpus_per_switch, tensor);

  if (cluster.nodes == 1) return share;  // of which a network need not be described
  comm::Network& network = share.network;
  network.adapters_per_node = std::gcd(network.adapters_per_node, own);
  network.adapter_bytes_per_second =
      divided(network.adapter_bytes_per_second, cluster.network.adapters_per_node,
              network.adapters_per_node, tensor);
  return share;
}

}  // namespace ringspan::bench
