// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/launch.hpp"

namespace ringspan::comm::cuda_ipc {

/// What Backend::launch does where ranks are processes of one machine, which find each other
/// through options.bootstrap, or else MPI.
void launch_in_processes(const LaunchOptions& options, const RankFunction& body);

}  // namespace ringspan::comm::cuda_ipc
