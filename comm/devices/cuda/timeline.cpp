// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/timeline.hpp"

#include <utility>

#include "comm/devices/cuda/host_clock.hpp"

namespace ringspan::comm::cuda {

Timeline::Timeline(const Stream& stream, int rank, Trace trace, double deadline)
    : rank_(rank), trace_(std::move(trace)), origin_(mark(stream)) {
  RINGSPAN_REQUIRE(origin_, "a timeline begins outside of graphs");
  wait_on_host([this] { return origin_->done(); }, deadline);
  origin_seconds_ = host_seconds();
}

Timeline::Mark Timeline::mark(const Stream& stream) const {
  if (stream.capturing()) return nullptr;
  auto event = std::make_shared<const Event>(stream.shared_gpu(), true);
  stream.record(*event);
  return event;
}

void Timeline::add(TraceSpan::Kind kind, std::string_view name, Mark start, Mark end, int peer,
                   std::int64_t bytes) {
  if (start && end)
    spans_.push_back({kind, std::string(name), std::move(start), std::move(end), peer, bytes});
}

// Streams overtake each other.
void Timeline::tell() {
  const auto seconds = [this](const Mark& mark) {
    return origin_seconds_ + mark->seconds_since(*origin_);
  };
  std::deque<Span> running;
  for (Span& span : spans_) {
    if (span.end->done())
      trace_({span.kind, rank_, span.name, seconds(span.start), seconds(span.end), span.peer,
              span.bytes});
    else
      running.push_back(std::move(span));
  }
  spans_ = std::move(running);
}

}  // namespace ringspan::comm::cuda
