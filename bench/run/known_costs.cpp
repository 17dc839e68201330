// SPDX-License-Identifier: Apache-2.0
#include "bench/run/known_costs.hpp"

#include <limits>

#include "bench/run/watchdog.hpp"
#include "comm/collectives.hpp"
#include "comm/nodes.hpp"
#include "comm/probe.hpp"

namespace ringspan::bench {

ProbedCosts probe_costs(const comm::Communicator& world, std::string_view transport,
                        double seconds) {
  const comm::Nodes nodes(world);
  return {std::string(transport), world.size(), nodes.count(), nodes.largest(),
          comm::probe(world, seconds)};
}

const ProbedCosts& KnownCosts::of(const comm::Communicator& world, std::string_view transport) {
  std::string key(transport);
  for (int rank = 0; rank < world.size(); ++rank) key += concat(' ', world.place(rank).node);
  // Ranks may know different things if a point has failed before.
  const std::int64_t mine = known_.count(key);
  if (comm::all_reduce(world, mine, comm::Reduction::min) == 0) {
    const Watchdog interrupts(world, std::numeric_limits<double>::infinity());
    known_[key] = probe_costs(world, transport, kProbeSeconds);
  }
  return known_[key];
}

}  // namespace ringspan::bench
