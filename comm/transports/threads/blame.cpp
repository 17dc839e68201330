// SPDX-License-Identifier: Apache-2.0
// Who is to blame for a wait in vain: from the waiting rank, follow "waits for" to the stalest peer
// until a rank that does not wait, or a cycle. All of it is read while other ranks may still run,
// so nothing here assumes that two readings fit together.
#include <algorithm>

#include "comm/transports/threads/hub.hpp"

namespace ringspan::comm::threads {
namespace {

struct Edge {
  int rank;
  Waiting waiting;
  int peer;
};

std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::int64_t operations_posted(const Channel& channel, int rank) {
  const auto found = std::find(channel.members.begin(), channel.members.end(), rank);
  return found == channel.members.end() ? 0
                                        : channel.posted[found - channel.members.begin()].load();
}

bool lacks_post(const Edge& edge) {
  const Waiting& waiting = edge.waiting;
  return waiting.channel && operations_posted(*waiting.channel, edge.peer) <= waiting.sequence;
}

std::string operation_name(const Waiting& waiting) {
  if (!waiting.channel) return waiting.operation;
  return concat("operation ", waiting.sequence, ", ", waiting.operation);
}

// "operation 151, all_to_all: posted by 0, 1, 3; not by 2, whose last was 150"
std::string who_posted(const Waiting& waiting, int ranks) {
  if (!waiting.channel) return waiting.operation;
  const std::vector<int>& members = waiting.channel->members;
  std::vector<std::string> names, posted, missing;
  for (const int rank : members) {
    names.push_back(std::to_string(rank));
    const std::int64_t count = operations_posted(*waiting.channel, rank);
    if (count > waiting.sequence)
      posted.push_back(names.back());
    else
      missing.push_back(
          concat(rank, ", ",
                 count == 0 ? "which has posted nothing" : concat("whose last was ", count - 1)));
  }
  std::string text = operation_name(waiting);
  if (static_cast<int>(members.size()) != ranks) text += " of group " + join(names);
  if (missing.empty()) return text + ": posted by all";
  return text + ": posted by " + join(posted) + "; not by " + join(missing);
}

Error blamed(const Edge& edge, ErrorKind kind, const std::string& message, int peer) {
  return Error(kind, message, {edge.rank, peer, edge.waiting.operation, edge.waiting.sequence});
}

}  // namespace

int Hub::stalest(const Waiting& waiting) const {
  int found = -1;
  const auto rank_less = [this](int a, int b) {
    const std::int64_t beat_a = heartbeat(a), beat_b = heartbeat(b);
    return beat_a != beat_b ? beat_a < beat_b : !this->waiting(a) && this->waiting(b);
  };
  for (const int peer : waiting.peers)
    if (!(returned(peer) && !waiting.channel) && (found < 0 || rank_less(peer, found)))
      found = peer;
  return found;
}

Error Hub::blame(int rank, const Waiting& first) const {
  const std::string suffix = concat(" (deadline ", options_.deadline, " s)");
  std::vector<Edge> path;
  Waiting waiting = first;
  for (int at = rank;;) {
    const int peer = stalest(waiting);
    path.push_back({at, waiting, peer});
    if (peer < 0) break;
    const std::optional<Waiting> next = this->waiting(peer);
    if (!next) {
      return blamed(
          path.back(), ErrorKind::timeout,
          concat(who_posted(waiting, size()), "; rank ", peer, " makes no progress", suffix), peer);
    }
    const bool seen =
        std::any_of(path.begin(), path.end(), [&](const Edge& edge) { return edge.rank == peer; });
    if (seen) break;
    at = peer;
    waiting = *next;
  }

  auto worst = std::find_if(path.begin(), path.end(), lacks_post);
  const int peer = worst == path.end() ? -1 : worst->peer;
  if (worst == path.end()) worst = path.begin();
  std::string message = who_posted(worst->waiting, size());
  for (const Edge& edge : path)
    message += concat("; rank ", edge.rank, " waits for rank ", edge.peer, " in ",
                      operation_name(edge.waiting));
  return blamed(*worst, ErrorKind::timeout, message + suffix, peer);
}

Error Hub::blame_returned(int rank, const Waiting& waiting, int peer) const {
  return blamed({rank, waiting, peer}, ErrorKind::peer_failed,
                concat(who_posted(waiting, size()), "; rank ", peer, " has returned"), peer);
}

}  // namespace ringspan::comm::threads
