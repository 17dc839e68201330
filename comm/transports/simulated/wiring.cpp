// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/simulated/wiring.hpp"

#include "comm/error.hpp"

namespace ringspan::comm::simulated {

/// A port that is being extended, link by link.
class Wiring::Way {
 public:
  explicit Way(std::vector<Link>& links, std::map<std::string, int>& known)
      : links_(links), known_(known) {}

  const Port& add(const std::string& name, double bytes_per_second) {
    port_.out.push_back(find(name + ".out", bytes_per_second));
    port_.in.push_back(find(name + ".in", bytes_per_second));
    return port_;
  }

 private:
  int find(const std::string& name, double bytes_per_second) {
    const auto [entry, added] = known_.try_emplace(name, static_cast<int>(links_.size()));
    if (added) links_.push_back({name, bytes_per_second});
    return entry->second;
  }

  std::vector<Link>& links_;
  std::map<std::string, int>& known_;
  Port port_;
};

Wiring::Wiring(const Cluster& cluster) : cluster_(cluster) {
  ports_.resize(std::size_t(cluster.gpus()) * kReaches);
  std::map<std::string, int> known;
  for (int node = 0; node < cluster.nodes; ++node)
    for (int gpu = 0; gpu < cluster.gpus_per_node; ++gpu) add_gpu(node, gpu, known);
}

void Wiring::add_gpu(int node, int gpu, std::map<std::string, int>& known) {
  const NodeFabric& fabric = cluster_.fabric;
  const Network& network = cluster_.network;
  const int gpus = cluster_.gpus_per_node;
  const std::string here = concat("node", node, "."), name = concat(here, "gpu", gpu);
  const auto set = [&](Reach reach, const Port& port) {
    ports_[this->port({node, 0, gpu}, reach)] = port;
  };

  Way inside(links_, known);
  set(in_switch, inside.add(name, fabric.gpu_bytes_per_second));
  if (fabric.gpus_per_switch < gpus) {
    set(in_domain, inside.add(concat(here, "switch", gpu / fabric.gpus_per_switch),
                              fabric.switch_bytes_per_second));
    if (fabric.numa_domains > 1)
      set(in_node, inside.add(concat(here, "domain", gpu * fabric.numa_domains / gpus),
                              fabric.socket_bytes_per_second));
  }
  if (cluster_.nodes == 1) return;
  Way outside(links_, known);
  const int rail = gpu * network.adapters_per_node / gpus;
  if (network.behind_gpu_port) outside.add(name, fabric.gpu_bytes_per_second);
  set(in_leaf, outside.add(concat(here, "adapter", rail), network.adapter_bytes_per_second));
  if (network.oversubscription == 1) return;
  set(across_leaves,
      outside.add(concat("leaf", node / nodes_per_leaf(), ".rail", rail),
                  nodes_per_leaf() * network.adapter_bytes_per_second / network.oversubscription));
}

int Wiring::nodes_per_leaf() const {
  return cluster_.network.nodes_per_leaf > 0 ? cluster_.network.nodes_per_leaf : cluster_.nodes;
}

Wiring::Reach Wiring::reach(const Place& from, const Place& to) const {
  const NodeFabric& fabric = cluster_.fabric;
  if (from.node != to.node) {
    const bool same_leaf = from.node / nodes_per_leaf() == to.node / nodes_per_leaf();
    const bool one_leaf = same_leaf && from.rail == to.rail;
    return one_leaf || cluster_.network.oversubscription == 1 ? in_leaf : across_leaves;
  }
  if (from.local_rank / fabric.gpus_per_switch == to.local_rank / fabric.gpus_per_switch)
    return in_switch;
  return from.numa_domain == to.numa_domain ? in_domain : in_node;
}

std::pair<int, int> Wiring::ports(const Place& from, const Place& to) const {
  const Reach reach = this->reach(from, to);
  return {port(from, reach), port(to, reach)};
}

}  // namespace ringspan::comm::simulated
