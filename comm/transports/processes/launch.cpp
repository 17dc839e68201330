// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/launch.hpp"

#include <exception>
#include <numeric>
#include <vector>

#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/process_transport.hpp"

namespace ringspan::comm::processes {
namespace {

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
  const std::vector<Seat> seats = agree(options, bootstrap);
  const auto world =
      std::make_shared<World>(World{places(seats, options), false, options.deadline});

  const std::shared_ptr<Wire> wire = make_wire(bootstrap, start_deadline(options));
  const auto engine =
      std::make_shared<Engine>(wire, options, world, crowded(seats, bootstrap.rank, options.ranks));
  if (engine->rank() < options.ranks) run_body(engine, world, body);
  if (const auto failure = engine->end()) {
    wire->fail();
    throw *failure;
  }
}

}  // namespace ringspan::comm::processes
