// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/launch.hpp"

#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "comm/devices/cuda/device.hpp"
#include "comm/devices/cuda/host_clock.hpp"
#include "comm/devices/host.hpp"
#include "comm/transports/device_options.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/process_transport.hpp"

namespace ringspan::comm::processes {
namespace {

std::shared_ptr<const cuda::Gpu> open_gpu(const std::vector<Seat>& seats, int rank) {
  try {
    auto gpu = gpu_of(seats, rank);
    gpu->open_pool();
    return gpu;
  } catch (const Error& error) {
    throw Error(ErrorKind::not_available, concat("rank ", rank, ": no GPU memory: ", error.what()));
  }
}

/// The device of this process's rank, if that has a GPU; all know whether everyone has one.
std::unique_ptr<cuda::CudaDevice> make_gpu_device(const LaunchOptions& options,
                                                  const std::vector<Seat>& seats,
                                                  const Bootstrap& bootstrap) {
  std::unique_ptr<cuda::CudaDevice> device;
  if (!options.gpu_memory) return device;
  all_or_none(bootstrap, start_deadline(options), [&] {
    if (bootstrap.rank >= options.ranks) return;
    const auto gpu = open_gpu(seats, bootstrap.rank);
    device = std::make_unique<cuda::CudaDevice>(gpu, device_options(options, gpu, bootstrap.rank));
  });
  return device;
}

// After a failure: it may use what the caller frees next.
void await_queued(const cuda::Stream& stream, double deadline) {
  cuda::End end(stream);
  try {
    cuda::wait_on_host([&] { return end.reached(); }, deadline);
  } catch (const Error& error) {  // the launch has failed before
    if (error.kind() == ErrorKind::timeout)
      std::fprintf(stderr, "ringspan: work on a GPU does not end; it may still use memory\n");
  }
}

void run_body(const std::shared_ptr<Engine>& engine, const std::shared_ptr<const World>& world,
              const RankFunction& body) {
  std::vector<int> members(world->places.size());
  std::iota(members.begin(), members.end(), 0);
  const auto everyone = engine->join(0, members, engine->rank());
  try {
    body(Communicator(std::make_shared<ProcessTransport>(engine, everyone), world));
    engine->device().synchronize(world->deadline);
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

  std::unique_ptr<Device> device;
  std::shared_ptr<const cuda::Gpu> gpu;
  std::optional<cuda::Current> current;  // for the wire and the body, too
  const cuda::Stream* compute = nullptr;
  if (auto own = make_gpu_device(options, seats, bootstrap)) {
    compute = &own->compute();
    gpu = compute->shared_gpu();
    current.emplace(*gpu);
    device = std::move(own);
  } else {
    device = make_host_device(options.debug.poison);
  }

  const std::shared_ptr<Wire> wire = make_wire(bootstrap, start_deadline(options));
  const auto engine = std::make_shared<Engine>(
      wire, options, world, crowded(seats, bootstrap.rank, options.ranks), std::move(device));
  if (engine->rank() < options.ranks) run_body(engine, world, body);
  if (const auto failure = engine->end()) {
    wire->fail();
    if (compute) await_queued(*compute, options.deadline);
    throw *failure;
  }
}

}  // namespace ringspan::comm::processes
