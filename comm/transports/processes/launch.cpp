// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/launch.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <type_traits>
#include <vector>

#include "comm/transports/processes/process_transport.hpp"
#include "comm/transports/processes/seat.hpp"

namespace ringspan::comm::processes {
namespace {

// Seconds. Processes start, and leave a launch that has failed, at different times.
constexpr double kShortestBootstrap = 1.5;

template <typename Value>
std::vector<Value> all_gather(const Bootstrap& bootstrap, const Value& mine, double deadline) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all(bootstrap.size);
  bootstrap.all_gather(reinterpret_cast<const std::byte*>(&mine),
                       reinterpret_cast<std::byte*>(all.data()), sizeof(Value), deadline);
  return all;
}

/// What all processes must pass alike.
struct Agreed {
  int ranks = 0, ranks_per_node = 0, ranks_per_numa_domain = 0;
  double deadline = 0;
  bool ledger = false;

  bool operator==(const Agreed&) const = default;
};

void require_same_options(const LaunchOptions& options, const Bootstrap& bootstrap,
                          double deadline) {
  const Agreed mine{options.ranks, options.ranks_per_node, options.ranks_per_numa_domain,
                    options.deadline, options.debug.ledger};
  const std::vector<Agreed> all = all_gather(bootstrap, mine, deadline);
  for (int process = 1; process < bootstrap.size; ++process) {
    RINGSPAN_REQUIRE(all[process] == all[0], "launch: process ", process, " asks for ",
                     all[process].ranks, " ranks, ", all[process].ranks_per_node, " per node, ",
                     all[process].ranks_per_numa_domain, " per NUMA domain, a deadline of ",
                     all[process].deadline, " s, ledger ", all[process].ledger, "; process 0 for ",
                     all[0].ranks, ", ", all[0].ranks_per_node, ", ", all[0].ranks_per_numa_domain,
                     ", ", all[0].deadline, " s, ", all[0].ledger, "; all must pass the same");
  }
}

void run_body(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const World>& world,
              const RankFunction& body) {
  std::vector<int> members(world->places.size());
  std::iota(members.begin(), members.end(), 0);
  const auto everyone = engine->join(0, members, engine->rank());
  try {
    body(Communicator(std::make_shared<ProcessTransport>(engine, everyone), world));
    engine->require_working();
  } catch (...) {
    engine->fail(diagnosis::failure_of_rank(engine->rank(), std::current_exception()));
  }
}

}  // namespace

void launch(const LaunchOptions& options, const RankFunction& body, const Bootstrap& bootstrap,
            const MakeWire& make_wire) {
  RINGSPAN_REQUIRE(options.ranks <= bootstrap.size, "launch: ", options.ranks,
                   " ranks need as many processes; there are ", bootstrap.size,
                   " (mpirun -n and srun -n say how many to start)");
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "launch: hops by reference need one address space; across processes, copy");
  const double deadline = std::max(options.deadline, kShortestBootstrap);
  require_same_options(options, bootstrap, deadline);
  const std::vector<Seat> seats = all_gather(bootstrap, own_seat(), deadline);
  const auto world =
      std::make_shared<World>(World{places(seats, options), false, options.deadline});

  const std::shared_ptr<Wire> wire = make_wire(bootstrap, deadline);
  const auto engine =
      std::make_shared<Engine>(wire, options, world, crowded(seats, bootstrap.rank, options.ranks));
  if (engine->rank() < options.ranks) run_body(engine, world, body);
  if (const auto failure = engine->end()) {
    wire->fail();
    throw *failure;
  }
}

}  // namespace ringspan::comm::processes
