// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/launch.hpp"
#include "comm/transports/streams/engine.hpp"

namespace ringspan::comm::streams {

/// Begins to connect one rank with the others, on its thread.
using Connect = std::function<std::unique_ptr<Connection>(
    const threads::Hub& hub, const std::shared_ptr<const cuda::Gpu>& gpu, int rank)>;

/// What Backend::launch does where ranks are threads of this process. Rank r has GPU r, modulo
/// their number.
void launch_threads(const LaunchOptions& options, const RankFunction& body,
                    const std::shared_ptr<const cuda::Api>& cuda, const Connect& connect);

}  // namespace ringspan::comm::streams
