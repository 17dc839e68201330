// SPDX-License-Identifier: Apache-2.0
// Ranks as actors of a simulated cluster, in virtual time. Tensors have no storage and kernels only
// take time; messages are flows that share the links of a described cluster. Schedules run as they
// are.
#include "comm/launch.hpp"
#include "comm/transports/simulated/simulation.hpp"

namespace ringspan::comm {
namespace simulated {
namespace {

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(options.cluster, "simulated: no cluster is described to simulate");
  RINGSPAN_REQUIRE(options.ranks_per_numa_domain == 0, "simulated: ", options.ranks_per_numa_domain,
                   " ranks per NUMA domain, which the cluster says");
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "launch: hops by reference need one address space; between GPUs, copy");
  RINGSPAN_REQUIRE(!options.bootstrap, "simulated: it needs no bootstrap and takes none");
  std::make_shared<Simulation>(options)->run(body);
}

}  // namespace
}  // namespace simulated

Backend simulated_backend() {
  return {"simulated", "ranks are GPUs of a described cluster, in virtual time", "simulated",
          [] { return std::string(); }, simulated::launch_ranks};
}

}  // namespace ringspan::comm
