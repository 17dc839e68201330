// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "comm/devices/cuda/gpu.hpp"
#include "comm/trace.hpp"

namespace ringspan::comm::cuda {

/// When a GPU has done what one rank queued on its streams, by events, whose times are turned into
/// those of the host. Used by the rank's thread.
class Timeline {
 public:
  /// An event that has been queued on a stream; null where that is captured.
  using Mark = std::shared_ptr<const Event>;

  /// Waits for the stream, for no longer than the deadline in seconds.
  Timeline(std::shared_ptr<const Stream> stream, int rank, Trace trace, double deadline);

  Mark mark(const Stream& stream) const;
  void add(TraceSpan::Kind kind, std::string_view name, Mark start, Mark end, int peer = -1,
           std::int64_t bytes = 0);
  /// Of what has been added, what is over. The stream is idle.
  void tell();

 private:
  struct Span {
    TraceSpan::Kind kind;
    std::string name;
    Mark start, end;
    int peer;
    std::int64_t bytes;
  };

  void begin();

  const std::shared_ptr<const Stream> stream_;
  const int rank_;
  const Trace trace_;
  const double deadline_;
  Mark origin_;
  double origin_seconds_ = 0;  // of the host
  std::deque<Span> spans_;
};

}  // namespace ringspan::comm::cuda
