// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/peers.hpp"

#include "comm/transports/diagnosis/ledger.hpp"

namespace ringspan::comm::processes {
namespace {

using diagnosis::Failure;
using diagnosis::Group;
using diagnosis::Waiting;

bool is_member(const Group& group, int rank) {
  return std::find(group.members.begin(), group.members.end(), rank) != group.members.end();
}

}  // namespace

Peers::Peers(Wire& wire, int ranks)
    : wire_(wire), rank_(wire.rank()), ranks_(ranks), others_(wire.size()) {}

std::int64_t Peers::heartbeat(int rank) const {
  return rank == rank_ ? heartbeat_ : others_[rank].heartbeat;
}

// Of one that does not answer, what it told earlier says nothing.
std::optional<Waiting> Peers::waiting(int rank) const {
  if (rank == rank_) return waiting_;
  return answers(rank) ? others_[rank].waiting : std::nullopt;
}

std::int64_t Peers::posted(const Group& group, int rank) const {
  if (rank == rank_) {
    const auto own = channels_.find(group.id);
    return own != channels_.end() && is_member(group, rank) ? own->second->posted : 0;
  }
  const auto& posted = others_[rank].posted;
  const auto found = posted.find(group.id);
  return found == posted.end() ? 0 : found->second;
}

void Peers::heard_of(const Channel& channel, int peer, std::int64_t sequence) {
  std::int64_t& posted = others_[peer].posted[channel.id];
  posted = std::max(posted, sequence + 1);
}

void Peers::ask(const std::vector<int>& ranks, const Group* group) {
  for (const int rank : ranks)
    if (answers(rank)) send_question(rank, {heartbeat_, group ? group->id : -1});
}

// An answer that is due already may have no room for all. One that is never given is asked for
// once.
void Peers::ask_all() {
  for (int rank = 0; rank < ranks_; ++rank)
    if (others_[rank].answers_due < 2) send_question(rank, {heartbeat_, -1, true});
}

void Peers::send_question(int rank, const Question& question) {
  if (rank == rank_) return;
  others_[rank].answers_due += 1;
  tell(rank, question);
  unsent_ = true;
}

bool Peers::all_answer() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (!answers(rank)) return false;
  return true;
}

void Peers::progress() {
  while (const std::optional<Notice> notice = wire_.receive_notice()) {
    Content content = decode(notice->bytes);
    std::visit([&](auto& part) { take(notice->from, part); }, content);
  }
  tell_failure();
  if (unsent_) flush();
}

void Peers::tell_failure() {
  if (!failure_ || failure_told_) return;
  failure_told_ = true;
  tell_all(in_words(*failure_.get()));
}

void Peers::tell_all(const Content& content) {
  for (int rank = 0; rank < wire_.size(); ++rank)
    if (rank != rank_) tell(rank, content);
  unsent_ = true;
}

void Peers::flush() {
  unsent_ = false;
  for (int rank = 0; rank < wire_.size(); ++rank) {
    auto& outbox = others_[rank].outbox;
    while (!outbox.empty() && wire_.send_notice(rank, outbox.front())) outbox.pop_front();
    if (!outbox.empty()) unsent_ = true;
  }
}

// The channel asked for, and those made last; if all are asked for, the others in further parts.
std::vector<Status> Peers::answer(const Question& question) const {
  std::vector<Status> parts{{heartbeat_, returned_, waiting_, {}}};
  const auto add = [&](const Channel& channel) {
    if (parts.back().posted.size() == Status::kMostPosted) {
      if (!question.every_channel) return false;
      parts.back().last = false;
      parts.push_back({heartbeat_, returned_, waiting_, {}});
    }
    parts.back().posted.push_back({channel.id, channel.posted});
    return true;
  };
  const auto asked = channels_.find(question.channel);
  if (asked != channels_.end()) add(*asked->second);
  for (auto other = channels_.rbegin(); other != channels_.rend(); ++other)
    if (other->first != question.channel && !add(*other->second)) break;
  return parts;
}

void Peers::take(int from, const Question& question) {
  heard_ = std::max(heard_, question.heartbeat);
  for (const Status& part : answer(question)) tell(from, part);
  unsent_ = true;
}

// A group that this rank is in, too, has its members all told.
void Peers::take(int from, Status& status) {
  Other& other = others_[from];
  if (status.last && other.answers_due > 0) other.answers_due -= 1;
  other.heartbeat = std::max(other.heartbeat, status.heartbeat);
  other.returned = status.returned;
  for (const Posted& posted : status.posted) other.posted[posted.channel] = posted.operations;
  if (status.waiting && status.waiting->group) {
    const auto own = channels_.find(status.waiting->group->id);
    if (own != channels_.end() && is_member(*own->second, from))
      status.waiting->group = own->second;
  }
  other.waiting = std::move(status.waiting);
}

void Peers::take(int from, const Failed& failed) {
  const Failure failure = from_words(failed);
  failure_told_ = failure_.set(failure) || failure_told_;  // its origin tells the others
  if (from == 0) agreed_ = failure;
}

void Peers::take(int from, const Count& count) {
  Counts& group = counts_[{count.posted.channel, count.first_member}];
  group.ranks.push_back(from);
  group.posted.push_back(count.posted.operations);
}

void Peers::set_returned(bool with_counts) {
  tell_failure();  // first, or rank 0 might find that all have returned and none has failed
  returned_ = true;
  waiting_.reset();
  for (const auto& [id, channel] : channels_) {
    if (!with_counts) break;
    const Count count{channel->members.front(), {id, channel->posted}};
    rank_ == 0 ? take(0, count) : tell(0, count);
  }
  if (rank_ != 0) tell(0, Returned{});
  unsent_ = true;
}

std::vector<int> Peers::not_returned() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!returned(rank) && !blames(rank)) ranks.push_back(rank);
  return ranks;
}

bool Peers::blames(int rank) const {
  const auto failure = failure_.get();
  return failure && failure->cause.kind() == ErrorKind::timeout &&
         failure->cause.where().peer == rank;
}

void Peers::finish() {
  require_equal_counts();
  if (const auto failure = failure_.get()) tell_all(in_words(*failure));
  tell_all(Finished{});
  failure_told_ = finished_ = true;
}

void Peers::require_equal_counts() {
  for (const auto& [name, group] : counts_)
    if (const auto error = diagnosis::unequal_counts(group.ranks, group.posted))
      failure_.set({*error, *error});
}

bool Peers::sent_all() const {
  return std::all_of(others_.begin(), others_.end(),
                     [](const Other& other) { return other.outbox.empty(); });
}

std::optional<Failure> Peers::outcome() const { return agreed_ ? agreed_ : failure_.get(); }

}  // namespace ringspan::comm::processes
