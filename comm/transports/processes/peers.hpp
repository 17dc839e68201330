// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/transports/diagnosis/board.hpp"
#include "comm/transports/diagnosis/first_failure.hpp"
#include "comm/transports/processes/notice.hpp"
#include "comm/transports/processes/operation.hpp"
#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::processes {

/// What this process knows of the others and tells them, all by notices. As long as nobody waits
/// for long, nothing is sent: a rank that waits asks, and whoever gets a question answers when it
/// next looks.
///
/// A heartbeat is a count that rises above every heartbeat heard of, at each real progress: unlike
/// a time, it needs no common clock.
class Peers final : public diagnosis::Board {
 public:
  /// `ranks` of the wire's processes are ranks of the world, the first ones.
  Peers(Wire& wire, int ranks);

  // The board.
  int size() const override { return ranks_; }
  std::int64_t heartbeat(int rank) const override;
  std::optional<diagnosis::Waiting> waiting(int rank) const override;
  std::int64_t posted(const diagnosis::Group& group, int rank) const override;
  bool returned(int rank) const override {
    return rank == rank_ ? returned_ : others_[rank].returned;
  }
  bool answers(int rank) const override { return rank == rank_ || others_[rank].answers_due == 0; }

  // What it tells of this rank.
  void beat() { heartbeat_ = std::max(heartbeat_, heard_) + 1; }
  void set_waiting(std::optional<diagnosis::Waiting> waiting) { waiting_ = std::move(waiting); }
  void join(const std::shared_ptr<Channel>& channel) { channels_[channel->id] = channel; }
  /// A message of this operation has come from `peer`, who must have posted it.
  void heard_of(const Channel& channel, int peer, std::int64_t sequence);
  void pass_on(int peer) { heartbeat_ = std::max(heartbeat_, heartbeat(peer)); }

  /// Asks those that do not owe an answer yet.
  void ask(const std::vector<int>& ranks, const diagnosis::Group* group);
  /// Asks all ranks for all that they know.
  void ask_all();
  bool all_answer() const;

  /// Reads and answers notices, and sends what is due.
  void progress();

  // Failure: whoever is first tells everybody.
  void fail(const diagnosis::Failure& failure) { failure_.set(failure); }
  const diagnosis::FirstFailure& failure() const { return failure_; }

  // The end of the launch: every rank tells rank 0 that it has returned; when all have, rank 0
  // tells all processes that it is over, and with what failure.
  void set_returned(bool with_counts);
  /// Ranks whose return is waited for: not that of one which a timeout blames.
  std::vector<int> not_returned() const;
  bool blames(int rank) const;
  void finish();
  bool finished() const { return finished_; }
  bool sent_all() const;
  /// What the launch ends with on every process.
  std::optional<diagnosis::Failure> outcome() const;

 private:
  struct Other {
    std::int64_t heartbeat = 0;
    int answers_due = 0;  // to questions that it was asked
    bool returned = false;
    std::optional<diagnosis::Waiting> waiting;
    std::map<std::int64_t, std::int64_t> posted;  // operations, [channel]
    std::deque<std::vector<std::byte>> outbox;
  };
  using GroupName = std::pair<std::int64_t, std::int64_t>;  // id, first member
  struct Counts {
    std::vector<int> ranks;
    std::vector<std::int64_t> posted;
  };

  void send_question(int rank, const Question& question);
  void tell(int rank, const Content& content) { others_[rank].outbox.push_back(encode(content)); }
  void tell_all(const Content& content);
  void tell_failure();
  void flush();
  std::vector<Status> answer(const Question& question) const;
  void require_equal_counts();

  void take(int from, const Question& question);
  void take(int from, Status& status);
  void take(int from, const Failed& failed);
  void take(int from, const Count& count);
  void take(int from, const Returned&) { others_[from].returned = true; }
  void take(int, const Finished&) { finished_ = true; }

  Wire& wire_;
  const int rank_, ranks_;
  std::int64_t heartbeat_ = 0, heard_ = 0;
  std::optional<diagnosis::Waiting> waiting_;
  std::map<std::int64_t, std::shared_ptr<const Channel>> channels_;
  std::vector<Other> others_;  // [process]
  bool unsent_ = false;        // something may be in an outbox
  bool returned_ = false, finished_ = false;
  std::map<GroupName, Counts> counts_;
  diagnosis::FirstFailure failure_;
  bool failure_told_ = false;
  std::optional<diagnosis::Failure> agreed_;  // as rank 0 has it
};

}  // namespace ringspan::comm::processes
