// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "comm/transports/streams/lanes.hpp"
#include "comm/transports/streams/launch.hpp"
#include "comm/transports/streams/shared_hub.hpp"

namespace ringspan::comm::streams {

/// What the processes of one launch have agreed on.
struct Meeting {
  Bootstrap bootstrap;
  double deadline = 0;  // seconds, of what is collective
  std::shared_ptr<SharedHub> hub;
  std::shared_ptr<Lanes> lanes;
  std::shared_ptr<const cuda::Gpu> gpu;  // of this process, if it has a rank
};

/// Finds out how ranks are to connect; collective over all processes, with a rank or without.
using Prepare = std::function<Connect(const Meeting&)>;

/// What Backend::launch does where ranks are processes of one machine, which find each other
/// through options.bootstrap, or else MPI. Each has a GPU of its host.
void launch_processes(std::string_view transport, const LaunchOptions& options,
                      const RankFunction& body, const Prepare& prepare);

}  // namespace ringspan::comm::streams
