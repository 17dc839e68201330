// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/chrome_trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace ringspan::bench {
namespace {

using Json = nlohmann::ordered_json;
using Kind = comm::TraceSpan::Kind;

constexpr int kQueue = 0;  // the track of kernels and waits; those of messages follow

/// What a kernel is for: attention itself, putting blocks together, moving data to where messages
/// or kernels need it, and the rest.
std::string_view category(const Span& span) {
  if (span.kind == Kind::message) return "message";
  if (span.kind == Kind::wait) return "wait";
  if (span.name.starts_with("attention")) return "attention";
  if (span.name == "merge" || span.name == "accumulate" || span.name == "reduce") return "merge";
  return span.name == "copy" ? "pack" : "other";
}

/// One event per line, so that traces can be looked at, and compared, as text.
class Events {
 public:
  explicit Events(std::ostream& stream) : stream_(stream) {}

  void write(const Json& event) {
    stream_ << (std::exchange(any_, true) ? ",\n" : "\n")
            << event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void name(const char* what, int rank, int track, const std::string& name) {
    write({{"ph", "M"}, {"pid", rank}, {"tid", track}, {"name", what}, {"args", {{"name", name}}}});
  }

  /// The order in which viewers show processes and tracks.
  void place(const char* what, int rank, int track, int index) {
    write({{"ph", "M"},
           {"pid", rank},
           {"tid", track},
           {"name", what},
           {"args", {{"sort_index", index}}}});
  }

  void span(const Span& span, int track) {
    constexpr double kMicroseconds = 1e6;
    Json event = {{"ph", "X"},
                  {"pid", span.rank},
                  {"tid", track},
                  {"name", span.name},
                  {"cat", category(span)},
                  {"ts", span.start * kMicroseconds},
                  {"dur", (span.end - span.start) * kMicroseconds}};
    if (span.kind == Kind::wait) event["name"] = "wait for " + span.name;
    if (span.kind == Kind::message) event["args"] = {{"to", span.peer}, {"bytes", span.bytes}};
    write(event);
  }

 private:
  std::ostream& stream_;
  bool any_ = false;
};

/// Of one rank; messages in the order in which they began, each on the first track that is free.
void write_spans(Events& events, int rank, std::vector<const Span*> spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) {
    return a->start != b->start ? a->start < b->start : a->end > b->end;  // what is inside, last
  });
  std::vector<double> free_at;  // [track of messages]
  for (const Span* span : spans) {
    if (span->kind == Kind::wait && span->end <= span->start) continue;
    if (span->kind != Kind::message) {
      events.span(*span, kQueue);
      continue;
    }
    const auto free = std::find_if(free_at.begin(), free_at.end(),
                                   [=](double end) { return end <= span->start; });
    const auto lane = static_cast<int>(free - free_at.begin());
    if (free == free_at.end()) free_at.push_back(0);
    free_at[lane] = span->end;
    events.span(*span, kQueue + 1 + lane);
  }
  events.name("thread_name", rank, kQueue, "kernels and waits");
  events.place("thread_sort_index", rank, kQueue, kQueue);
  for (int track = kQueue + 1; track <= std::ssize(free_at); ++track) {
    events.name("thread_name", rank, track, "messages sent");
    events.place("thread_sort_index", rank, track, track);
  }
}

}  // namespace

void write_chrome_trace(std::ostream& stream, const Timeline& timeline,
                        const std::map<std::string, std::string>& about) {
  std::vector<std::vector<const Span*>> spans(timeline.places.size());  // [rank]
  for (const Span& span : timeline.spans) spans[span.rank].push_back(&span);
  stream << "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " << Json(about).dump()
         << ",\n\"traceEvents\": [";
  Events events(stream);
  for (int rank = 0; rank < std::ssize(spans); ++rank) {
    events.name("process_name", rank, kQueue,
                "rank " + std::to_string(rank) + " on node " +
                    std::to_string(timeline.places[rank].node) + ", " + about.at("world"));
    events.place("process_sort_index", rank, kQueue, rank);
    write_spans(events, rank, std::move(spans[rank]));
  }
  stream << "\n]}\n";
}

}  // namespace ringspan::bench
