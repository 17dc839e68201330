// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace ringspan::comm {

/// What one rank did for a while.
struct TraceSpan {
  enum class Kind {
    kernel,   // and copies: what ran on the compute queue
    message,  // to `peer`, from its start to its arrival
    wait      // the compute queue had nothing to run but what came after these messages; each wait
              // is told, in order, of no length where they had arrived
  };

  Kind kind = Kind::kernel;
  int rank = 0;                // world rank
  std::string_view name = {};  // of the kernel or the operation; valid during the call
  double start = 0, end = 0;   // seconds of Device::now()
  int peer = -1;               // world rank, of a message
  std::int64_t bytes = 0;      // of a message
};

/// Called at the end of each span, by the rank's thread or the transport's; on GPUs when the rank's
/// thread synchronizes.
using Trace = std::function<void(const TraceSpan&)>;

}  // namespace ringspan::comm
