// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/launch.hpp"

#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/process_transport.hpp"

namespace ringspan::comm::processes {
namespace {

/// The GPU of this process, if it has a rank; all know whether everyone has one.
std::shared_ptr<const cuda::Gpu> open_gpu(const LaunchOptions& options,
                                          const std::vector<Seat>& seats,
                                          const Bootstrap& bootstrap) {
  std::shared_ptr<const cuda::Gpu> gpu;
  all_or_none(bootstrap, start_deadline(options), [&] {
    if (bootstrap.rank >= options.ranks) return;
    try {
      gpu = gpu_of(seats, bootstrap.rank);
      gpu->open_pool();
    } catch (const Error& error) {
      throw Error(ErrorKind::not_available,
                  concat("rank ", bootstrap.rank, ": no GPU memory: ", error.what()));
    }
  });
  return gpu;
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
  const std::vector<Seat> seats = agree(options, bootstrap);
  const auto world =
      std::make_shared<World>(World{places(seats, options), false, options.deadline});

  std::shared_ptr<const cuda::Gpu> gpu;
  if (options.gpu_memory) gpu = open_gpu(options, seats, bootstrap);
  std::optional<cuda::Current> current;  // for the wire and the body, too
  if (gpu) current.emplace(*gpu);

  const std::shared_ptr<Wire> wire = make_wire(bootstrap, start_deadline(options));
  const auto engine = std::make_shared<Engine>(wire, options, world,
                                               crowded(seats, bootstrap.rank, options.ranks), gpu);
  if (engine->rank() < options.ranks) run_body(engine, world, body);
  if (const auto failure = engine->end()) {
    wire->fail();
    throw *failure;
  }
}

}  // namespace ringspan::comm::processes
