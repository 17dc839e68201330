// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "comm/launch.hpp"
#include "comm/transports/streams/engine.hpp"
#include "comm/transports/streams/watchdog.hpp"

namespace ringspan::comm::streams {

/// Begins to connect one rank with the others, on its thread.
using Connect = std::function<std::unique_ptr<Connection>(
    const std::shared_ptr<const cuda::Gpu>& gpu, int rank)>;

/// Throws invalid_argument if ranks that are threads are more than GPUs: what several of them queue
/// in one context may wait for each other, which CUDA does not promise to end.
void require_gpu_each(std::string_view transport, const cuda::Api& cuda, int ranks);

/// What Backend::launch does where ranks are threads of this process. Rank r has GPU r.
void launch_threads(const LaunchOptions& options, const RankFunction& body,
                    const std::shared_ptr<const cuda::Api>& cuda, const Connect& connect);

/// Runs one rank on this thread, with a GPU of its own. What fails there fails in the hub. Returns
/// its engine, or null if that is what failed.
std::shared_ptr<Engine> run_rank(const std::shared_ptr<diagnosis::Hub>& hub, int rank,
                                 const RankFunction& body,
                                 const std::shared_ptr<const cuda::Gpu>& gpu,
                                 const Connect& connect, Watchdog& watchdog);

}  // namespace ringspan::comm::streams
