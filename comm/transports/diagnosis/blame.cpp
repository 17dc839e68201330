// SPDX-License-Identifier: Apache-2.0
// Who is to blame for a wait in vain: from the rank that gives up, follow "waits for" to the
// stalest peer each time, until a rank that does not wait, or a cycle. Others may still run
// meanwhile, so nothing here relies on two readings fitting together.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/clock.hpp"

namespace ringspan::comm::diagnosis {
namespace {

/// `rank` waits for `peer`.
struct Edge {
  int rank;
  int peer;
  Waiting waiting;
};

bool lacks_post(const Board& board, const Edge& edge) {
  const Waiting& waiting = edge.waiting;
  return waiting.group && board.posted(*waiting.group, edge.peer) <= waiting.sequence;
}

std::string title(const Waiting& waiting, int world_size) {
  if (!waiting.group) return waiting.operation;
  const std::vector<int>& members = waiting.group->members;
  const bool whole_world = static_cast<int>(members.size()) == world_size;
  return concat("operation ", waiting.sequence, ", ", waiting.operation,
                whole_world ? "" : ", of group " + name_list(members));
}

std::string last_of(std::int64_t posted) {
  return posted == 0 ? "none" : std::to_string(posted - 1);
}

// "operation 151, all_to_all: posted by 0, 1, 3; not by 2, whose last was 150"
std::string who_posted(const Board& board, const Waiting& waiting) {
  std::string text = title(waiting, board.size());
  if (!waiting.group) return text;
  using Missing = std::map<std::int64_t, std::vector<int>, std::greater<>>;  // by operations posted
  std::vector<int> posted;
  Missing missing, silent;
  for (const int rank : waiting.group->members) {
    const std::int64_t count = board.posted(*waiting.group, rank);
    if (count > waiting.sequence) {
      posted.push_back(rank);
    } else {
      (board.answers(rank) ? missing : silent)[count].push_back(rank);
    }
  }
  const bool by_all = missing.empty() && silent.empty();
  text += by_all ? ": posted by all" : ": posted by " + name_list(posted);
  for (const auto& [count, ranks] : missing)
    text += concat("; not by ", name_list(ranks), ", whose last was ", last_of(count));
  for (const auto& [count, ranks] : silent)
    text +=
        concat("; no answer from ", name_list(ranks), ", whose last known was ", last_of(count));
  return text;
}

Error report(ErrorKind kind, const std::string& message, const Edge& edge, int peer) {
  return Error(kind, message, {edge.rank, peer, edge.waiting.operation, edge.waiting.sequence});
}

// Those that do not answer come first. Of two that are equally stale, one that does not wait: the
// other got its heartbeat from it.
int stalest(const Board& board, const Waiting& waiting) {
  const auto key = [&](int rank) {
    return std::make_tuple(board.answers(rank), board.heartbeat(rank),
                           board.waiting(rank).has_value());
  };
  const auto found = std::min_element(waiting.peers.begin(), waiting.peers.end(),
                                      [&](int a, int b) { return key(a) < key(b); });
  return found == waiting.peers.end() ? -1 : *found;
}

}  // namespace

Error blame(const Board& board, int rank, const Waiting& first, double deadline) {
  const std::string suffix =
      std::isfinite(deadline) ? concat(" (deadline ", deadline, " s)") : " (deadlock)";
  std::vector<Edge> path;
  const auto visited = [&](int peer) {
    return std::any_of(path.begin(), path.end(), [=](const Edge& e) { return e.rank == peer; });
  };
  std::optional<Waiting> waiting = first;
  for (int at = rank; at >= 0 && !visited(at); at = path.back().peer) {
    if (at != rank) waiting = board.waiting(at);
    const bool needed = at != rank && path.back().waiting.group;  // else returning was right
    if (needed && board.returned(at))
      return blame_gone(board, path.back().rank, path.back().waiting, at);
    if (!waiting) {
      return report(ErrorKind::timeout,
                    concat(who_posted(board, path.back().waiting), "; rank ", at,
                           " makes no progress", suffix),
                    path.back(), at);
    }
    path.push_back({at, stalest(board, *waiting), *waiting});
  }

  // A cycle. Whoever has not posted what it is awaited for has caused it.
  auto cause = std::find_if(path.begin(), path.end(),
                            [&](const Edge& edge) { return lacks_post(board, edge); });
  int peer = cause == path.end() ? -1 : cause->peer;
  if (cause == path.end()) cause = path.begin();
  // Or no cycle: the last one waits for nobody but itself.
  if (peer < 0 && path.back().peer < 0 && path.size() > 1) peer = path.back().rank;
  std::string message = who_posted(board, cause->waiting);
  for (const Edge& edge : path) {
    message += concat("; rank ", edge.rank, " waits");
    if (edge.peer >= 0) message += concat(" for rank ", edge.peer);
    message += " in " + title(edge.waiting, board.size());
  }
  return report(ErrorKind::timeout, message + suffix, *cause, peer);
}

Error blame_gone(const Board& board, int rank, const Waiting& waiting, int peer,
                 const std::string& reason) {
  return report(ErrorKind::peer_failed,
                concat(who_posted(board, waiting), "; rank ", peer, " ", reason),
                {rank, peer, waiting}, peer);
}

double Patience::seconds_since_change(std::int64_t heartbeat) {
  const std::int64_t now = steady_now();
  if (heartbeat > heartbeat_) {
    changed_at_ = now;
    heartbeat_ = heartbeat;
  }
  return static_cast<double>(now - changed_at_) * 1e-9;
}

}  // namespace ringspan::comm::diagnosis
