// SPDX-License-Identifier: Apache-2.0
#include "comm/devices/cuda/timeline.hpp"

#include <limits>
#include <utility>

#include "comm/devices/cuda/host_clock.hpp"
#include "comm/error.hpp"

namespace ringspan::comm::cuda {
namespace {

constexpr int kTries = 10;

}  // namespace

Timeline::Timeline(std::shared_ptr<const Stream> stream, int rank, Trace trace, double deadline)
    : stream_(std::move(stream)), rank_(rank), trace_(std::move(trace)), deadline_(deadline) {
  begin();
}

// Between the two looks at the host's clock an event has happened: the closer they are, the better
// is it known when.
void Timeline::begin() {
  double closest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const double before = host_seconds();
    const Mark mark = this->mark(*stream_);
    RINGSPAN_REQUIRE(mark, "a timeline begins outside of graphs");
    while (!mark->done())
      if (host_seconds() > before + deadline_)
        throw Error(ErrorKind::timeout,
                    concat("an event of the GPU has not happened in ", deadline_, " s"));
    const double after = host_seconds();
    if (after - before >= closest) continue;
    closest = after - before;
    origin_ = mark;
    origin_seconds_ = (before + after) / 2;
  }
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

// Streams overtake each other. Times between events are single precision, and the clocks of host
// and GPU drift apart, so that what comes next gets an origin of its own. Start and end are both
// counted from there: rounded alike, what follows one another on a stream never overlaps.
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
  begin();
}

}  // namespace ringspan::comm::cuda
