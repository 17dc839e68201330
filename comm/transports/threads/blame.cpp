// SPDX-License-Identifier: Apache-2.0
// Who is to blame for a wait in vain: from the rank that gives up, follow "waits for" to the
// stalest peer each time, until a rank that does not wait, or a cycle. Others may still run
// meanwhile, so nothing here relies on two readings fitting together.
#include <algorithm>
#include <functional>

#include "comm/transports/threads/hub.hpp"

namespace ringspan::comm::threads {
namespace {

/// `rank` waits for `peer`.
struct Edge {
  int rank;
  int peer;
  Waiting waiting;
};

std::int64_t operations_posted(const Channel& channel, int rank) {
  const auto& members = channel.members;
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? 0 : channel.posted[found - members.begin()].load();
}

bool lacks_post(const Edge& edge) {
  const Waiting& waiting = edge.waiting;
  return waiting.channel && operations_posted(*waiting.channel, edge.peer) <= waiting.sequence;
}

std::string title(const Waiting& waiting, int world_size) {
  if (!waiting.channel) return waiting.operation;
  const std::vector<int>& members = waiting.channel->members;
  const bool whole_world = static_cast<int>(members.size()) == world_size;
  return concat("operation ", waiting.sequence, ", ", waiting.operation,
                whole_world ? "" : ", of group " + name_list(members));
}

// "operation 151, all_to_all: posted by 0, 1, 3; not by 2, whose last was 150"
std::string who_posted(const Waiting& waiting, int world_size) {
  std::string text = title(waiting, world_size);
  if (!waiting.channel) return text;
  std::vector<int> posted;
  std::map<std::int64_t, std::vector<int>, std::greater<>> missing;  // by operations posted
  for (const int rank : waiting.channel->members) {
    const std::int64_t count = operations_posted(*waiting.channel, rank);
    (count > waiting.sequence ? posted : missing[count]).push_back(rank);
  }
  text += missing.empty() ? ": posted by all" : ": posted by " + name_list(posted);
  for (const auto& [count, ranks] : missing)
    text += concat("; not by ", name_list(ranks), ", whose last was ",
                   count == 0 ? "none" : std::to_string(count - 1));
  return text;
}

Error report(ErrorKind kind, const std::string& message, const Edge& edge, int peer) {
  return Error(kind, message, {edge.rank, peer, edge.waiting.operation, edge.waiting.sequence});
}

}  // namespace

// Of two that are equally stale, one that does not wait: the other got its heartbeat from it.
int Hub::stalest(const Waiting& waiting) const {
  const auto staler = [this](int a, int b) {
    const std::int64_t beat_a = heartbeat(a), beat_b = heartbeat(b);
    return beat_a != beat_b ? beat_a < beat_b : !this->waiting(a) && this->waiting(b);
  };
  const auto found = std::min_element(waiting.peers.begin(), waiting.peers.end(), staler);
  return found == waiting.peers.end() ? -1 : *found;
}

Error Hub::blame(int rank, const Waiting& first) const {
  const std::string suffix = concat(" (deadline ", options_.deadline, " s)");
  std::vector<Edge> path;
  const auto visited = [&](int peer) {
    return std::any_of(path.begin(), path.end(), [=](const Edge& e) { return e.rank == peer; });
  };
  std::optional<Waiting> waiting = first;
  for (int at = rank; at >= 0 && !visited(at); at = path.back().peer) {
    if (at != rank) waiting = this->waiting(at);
    if (!waiting) {
      return report(ErrorKind::timeout,
                    concat(who_posted(path.back().waiting, size()), "; rank ", at,
                           " makes no progress", suffix),
                    path.back(), at);
    }
    path.push_back({at, stalest(*waiting), *waiting});
  }

  // A cycle. Whoever has not posted what it is awaited for has caused it.
  auto cause = std::find_if(path.begin(), path.end(), lacks_post);
  const int peer = cause == path.end() ? -1 : cause->peer;
  if (cause == path.end()) cause = path.begin();
  std::string message = who_posted(cause->waiting, size());
  for (const Edge& edge : path) {
    message += concat("; rank ", edge.rank, " waits");
    if (edge.peer >= 0) message += concat(" for rank ", edge.peer);
    message += " in " + title(edge.waiting, size());
  }
  return report(ErrorKind::timeout, message + suffix, *cause, peer);
}

Error Hub::blame_returned(int rank, const Waiting& waiting, int peer) const {
  return report(ErrorKind::peer_failed,
                concat(who_posted(waiting, size()), "; rank ", peer, " has returned"),
                {rank, peer, waiting}, peer);
}

}  // namespace ringspan::comm::threads
