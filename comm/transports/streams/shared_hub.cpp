// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/shared_hub.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/processes/notice.hpp"
#include "comm/transports/streams/shared_hub_memory.hpp"

namespace ringspan::comm::streams {
namespace {

using diagnosis::Channel;
using diagnosis::Waiting;

constexpr double kLongestNap = 1e-3;  // seconds
constexpr double kPrecedence = 0.5;   // likewise, by which ranks that have returned complain later
constexpr double kLeaving = 3;  // deadlines, which the ends of streams and of connections may take

diagnosis::Failure failure_in(const std::vector<std::byte>& notice) {
  return processes::from_words(std::get<processes::Failed>(processes::decode(notice)));
}

}  // namespace

std::size_t SharedHub::bytes(int processes) {
  return sizeof(Header) + alignof(Member) + processes * sizeof(Member);
}

SharedHub::SharedHub(std::unique_ptr<const SharedMemory> memory, const LaunchOptions& options,
                     std::shared_ptr<const World> world, bool crowded, int process,
                     Machines machines)
    : memory_(std::move(memory)),
      options_(options),
      world_(std::move(world)),
      crowded_(crowded),
      process_(process),
      processes_(machines.processes()),
      machines_(std::move(machines)),
      watched_(processes_) {}

SharedHub::Header& SharedHub::header() const { return *reinterpret_cast<Header*>(memory_->data()); }

SharedHub::Member& SharedHub::member(int process) const {
  constexpr std::size_t kFirst =
      (sizeof(Header) + alignof(Member) - 1) / alignof(Member) * alignof(Member);
  return reinterpret_cast<Member*>(memory_->data() + kFirst)[process];
}

void SharedHub::start() {
  header().failure.start();
  for (int process = 0; process < processes_; ++process) member(process).status.start();
}

void SharedHub::enter() { member(process_).process = processes::ProcessIdentity::own(); }

void SharedHub::watch() {
  for (int process = 0; process < processes_; ++process)
    if (process != process_)
      watched_[process] =
          std::make_unique<const processes::WatchedProcess>(member(process).process);
}

std::string SharedHub::ended(int process) const {
  if (!watched_[process] || !watched_[process]->ended()) return "";
  return concat("its process ", member(process).process.id, " has ended");
}

std::string SharedHub::lost(int rank) const {
  const int machine = machines_.of(rank);
  if (machine == machines_.of(process_)) return ended(rank);
  const std::int64_t gone = shared(member(rank).gone).load();
  if (gone > 0) return concat("its process ", gone, " has ended");
  if (gone == 0) return "";
  return concat("the connection to its host, ", machines_.host(machine), ", has ended");
}

// Whether others can be heard of at all.
bool SharedHub::relayed() const { return ended(machines_.first(machines_.of(process_))).empty(); }

// That the relay here has ended is no fault of others, but nothing of them is to come any more.
bool SharedHub::is_there(int process) const {
  return lost(process).empty() && (machines_.of(process) == machines_.of(process_) || relayed());
}

std::shared_ptr<Channel> SharedHub::join(std::int64_t parent, std::int64_t call,
                                         const std::vector<int>& members) {
  const std::uint32_t id = number_of({parent, call});
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Channel>& channel = channels_[id];
  if (!channel) channel = std::make_shared<Channel>(id, members);
  return channel;
}

void SharedHub::beat(int rank) {
  shared(member(rank).heartbeat).store(shared(header().newest).fetch_add(1) + 1);
}

void SharedHub::pass_on(int rank, std::int64_t heartbeat) {
  auto own = shared(member(rank).heartbeat);  // no other rank writes it
  own.store(std::max(own.load(), heartbeat));
}

std::int64_t SharedHub::heartbeat(int rank) const { return shared(member(rank).heartbeat).load(); }

void SharedHub::set_waiting(int rank, std::optional<Waiting> waiting) {
  const std::int64_t looked_at = waiting ? waiting->looked_at : 0;
  const processes::Status status{0, false, std::move(waiting), {}};
  Member& member = this->member(rank);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, channel] : channels_) {
      const auto own = std::find(channel->members.begin(), channel->members.end(), rank);
      shared(member.posted[id]).store(channel->posted[own - channel->members.begin()]);
    }
  }
  if (const std::unique_lock held(member.status, std::try_to_lock); held) {
    member.status.write(processes::encode(status));
    shared(member.looked_at).store(looked_at);
  }
  if (status.waiting) require_relay();
}

// A group that this rank is in, too, has its members all told.
std::optional<Waiting> SharedHub::waiting(int rank) const {
  const int relay = silent(rank, options_.deadline / 2);
  if (relay == rank) return {};
  if (relay >= 0)
    return Waiting{nullptr, -1, concat("word from ", machines_.host(machines_.of(rank))), {relay}};
  const std::vector<std::byte> text = member(rank).status.read();
  if (text.empty() || outdated(shared(member(rank).looked_at).load())) return {};
  auto waiting = std::get<processes::Status>(processes::decode(text)).waiting;
  if (!waiting || !waiting->group) return waiting;
  const std::lock_guard lock(mutex_);
  const auto own = channels_.find(waiting->group->id);
  if (own == channels_.end()) return waiting;
  const auto& members = own->second->members;
  if (std::find(members.begin(), members.end(), rank) != members.end())
    waiting->group = own->second;
  return waiting;
}

std::int64_t SharedHub::posted(const diagnosis::Group& group, int rank) const {
  return shared(member(rank).posted[group.id]).load();
}

void SharedHub::set_returned(int rank) {
  set_waiting(rank, {});
  shared(member(rank).returned).store(1);
}

bool SharedHub::returned(int rank) const { return shared(member(rank).returned).load() != 0; }

void SharedHub::set_active(int rank, bool active) {
  shared(member(rank).active).store(active ? 1 : 0);
}

bool SharedHub::active(int rank) const {
  return shared(member(rank).active).load() != 0 && is_there(rank);
}

// Whoever waits for a message knows better what is wrong, and comes first.
void SharedHub::await_returns(int rank) {
  const double deadline = options_.deadline + kPrecedence;
  diagnosis::Patience patience;
  for (;; sleep(rank, 0, kLongestNap)) {
    Waiting waiting{nullptr, -1, "end of the launch", {}};
    std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
    for (int other = 0; other < size(); ++other) {
      if (returned(other)) continue;
      waiting.peers.push_back(other);
      oldest = std::min(oldest, heartbeat(other));
    }
    if (waiting.peers.empty() || failure()) return;
    for (const int peer : waiting.peers)
      if (const std::string why = lost(peer); !why.empty() && !returned(peer))
        return fail(diagnosis::blame_gone(*this, rank, waiting, peer, "is gone: " + why));
    set_waiting(rank, waiting);
    if (patience.seconds_since_change(oldest) > deadline &&
        diagnosis::had_its_chance([this] { return static_cast<bool>(failure()); }))
      return fail(diagnosis::blame(*this, rank, waiting, deadline));
  }
}

void SharedHub::fail(const diagnosis::Failure& failure) {
  Header& header = this->header();
  if (!header.failure.lock_within(static_cast<std::int64_t>(1e9 * options_.deadline)))
    return void(failure_.set(failure));  // to be thrown here, at least
  const std::unique_lock lock(header.failure, std::adopt_lock);
  if (shared(header.failed).load()) return;
  header.failure.write(processes::encode(processes::in_words(failure)));
  shared(header.failed).store(1);
}

const diagnosis::FirstFailure& SharedHub::failure() const {
  if (failure_) return failure_;
  if (const auto notice = failure_notice(); !notice.empty()) failure_.set(failure_in(notice));
  return failure_;
}

void SharedHub::sleep(int, std::int64_t, double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLongestNap)));
}

// The first process that has not, and is there; -1: all have.
int SharedHub::awaited(std::uint32_t Member::*reached) const {
  for (int process = 0; process < processes_; ++process)
    if (!shared(member(process).*reached).load() && is_there(process)) return process;
  return -1;
}

bool SharedHub::all_returned() const {
  for (int rank = 0; rank < size(); ++rank)
    if (!returned(rank) && is_there(rank)) return false;
  return true;
}

// A rank that has failed may be stuck: it is waited for no longer than the deadline.
void SharedHub::wait_for_all(std::uint32_t Member::*reached) {
  shared(member(process_).*reached).store(1);
  diagnosis::Patience patience;
  for (;; sleep(process_, 0, kLongestNap)) {
    require_relay();
    const int process = awaited(reached);
    if (process < 0) return require_relay();  // which may be why nobody is awaited
    const bool returned = all_returned();
    const double waited = patience.seconds_since_change(failure() ? 2 : returned ? 1 : 0);
    if (failure() && waited > options_.deadline) return;
    if (returned && waited > kLeaving * options_.deadline)
      fail(Error(
          ErrorKind::timeout,
          concat("process ", process, " does not leave the launch, from which all ranks have ",
                 "returned (", kLeaving, " deadlines of ", options_.deadline, " s)"),
          {process_, process}));
    if (!failure()) require_word();
  }
}

void SharedHub::leave() {
  wait_for_all(&Member::ended);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (returned(rank) || failure()) continue;
    fail(Error(ErrorKind::peer_failed, concat("rank ", rank, " is gone: ", lost(rank)),
               {process_, rank}));
  }
  if (!failure() && options_.debug.ledger) require_equal_counts();
  wait_for_all(&Member::left);
  if (!failure()) return;
  const auto decided = failure_notice();
  throw decided.empty() ? failure().get()->thrown : failure_in(decided).thrown;
}

void SharedHub::require_equal_counts() {
  for (const auto& [id, channel] : channels_) {
    std::vector<std::int64_t> counts;
    for (const int rank : channel->members) counts.push_back(posted(*channel, rank));
    if (const auto error = diagnosis::unequal_counts(channel->members, counts)) return fail(*error);
  }
}

}  // namespace ringspan::comm::streams
