// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "comm/transports/streams/lanes.hpp"
#include "comm/transports/streams/launch.hpp"
#include "comm/transports/streams/relay.hpp"
#include "comm/transports/streams/shared_hub.hpp"

namespace ringspan::comm::streams {

/// What the processes of one launch have agreed on.
struct Meeting {
  Bootstrap bootstrap;
  double deadline = 0;  // seconds, of what is collective
  std::shared_ptr<SharedHub> hub;
  std::shared_ptr<Lanes> lanes;
  std::unique_ptr<const Relay>
      relay;  // of the machine's first process, if there are several machines
  std::shared_ptr<const cuda::Gpu> gpu;  // of this process, if it has a rank
};

/// Finds out how ranks are to connect; collective over all processes, with a rank or without.
using Prepare = std::function<Connect(const Meeting&)>;

/// Where the processes of a launch may be.
enum class Reach { one_machine, any_machines };

/// What Backend::launch does where ranks are processes, which find each other through
/// options.bootstrap, or else MPI. Each has a GPU of its host.
void launch_processes(std::string_view transport, Reach reach, const LaunchOptions& options,
                      const RankFunction& body, const Prepare& prepare);

}  // namespace ringspan::comm::streams
