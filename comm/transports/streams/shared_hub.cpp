// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/shared_hub.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/diagnosis/ledger.hpp"
#include "comm/transports/processes/notice.hpp"

namespace ringspan::comm::streams {
namespace {

using diagnosis::Channel;
using diagnosis::Waiting;

constexpr std::size_t kLongestNotice = 1024;  // what processes::encode() keeps within
constexpr std::uint32_t kMostGroups = 4096;
constexpr double kLongestNap = 1e-3;  // seconds
constexpr double kPrecedence = 0.5;   // likewise, by which ranks that have returned complain later

template <typename Value>
std::atomic_ref<Value> shared(Value& value) {
  return std::atomic_ref<Value>(value);
}

}  // namespace

/// A notice that is replaced as a whole. Whoever dies with the lock leaves none.
struct SharedNotice {
  void start() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }

  void lock() {
    if (pthread_mutex_lock(&mutex) == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  }
  void unlock() { pthread_mutex_unlock(&mutex); }

  void write(const processes::Content& content) {
    const std::vector<std::byte> text = processes::encode(content);
    size = 0;
    std::memcpy(notice.data(), text.data(), text.size());
    size = text.size();
  }
  std::vector<std::byte> read() {
    const std::lock_guard held(*this);
    return {notice.begin(), notice.begin() + size};
  }

  pthread_mutex_t mutex;
  std::size_t size;  // 0: nothing yet
  std::array<std::byte, kLongestNotice> notice;
};

struct GroupName {
  std::int64_t parent, call;
};

struct SharedHub::Header {
  SharedNotice failure;  // and the lock of the groups
  std::uint32_t failed;
  std::uint32_t groups;
  std::array<GroupName, kMostGroups> names;  // [id]
};

struct alignas(64) SharedHub::Member {
  SharedNotice status;
  std::int64_t heartbeat;
  processes::ProcessIdentity process;
  std::uint32_t returned, active, ended, left;
  std::array<std::int64_t, kMostGroups> posted;  // operations, [group]
};

std::size_t SharedHub::bytes(int processes) {
  return sizeof(Header) + alignof(Member) + processes * sizeof(Member);
}

SharedHub::SharedHub(std::unique_ptr<const SharedMemory> memory, const LaunchOptions& options,
                     std::shared_ptr<const World> world, bool crowded, int process, int processes)
    : memory_(std::move(memory)),
      options_(options),
      world_(std::move(world)),
      crowded_(crowded),
      process_(process),
      processes_(processes),
      watched_(processes) {}

SharedHub::Header& SharedHub::header() const { return *reinterpret_cast<Header*>(memory_->data()); }

SharedHub::Member& SharedHub::member(int process) const {
  constexpr std::size_t kFirst =
      (sizeof(Header) + alignof(Member) - 1) / alignof(Member) * alignof(Member);
  return reinterpret_cast<Member*>(memory_->data() + kFirst)[process];
}

void SharedHub::start() {
  header().failure.start();
  for (int process = 0; process < processes_; ++process) {
    member(process).status.start();
    shared(member(process).heartbeat).store(diagnosis::steady_now());
  }
}

void SharedHub::enter() { member(process_).process = processes::ProcessIdentity::own(); }

void SharedHub::watch() {
  for (int process = 0; process < processes_; ++process)
    if (process != process_)
      watched_[process] =
          std::make_unique<const processes::WatchedProcess>(member(process).process);
}

std::string SharedHub::lost(int rank) const {
  if (!watched_[rank] || !watched_[rank]->ended()) return "";
  return concat("its process ", member(rank).process.id, " has ended");
}

std::shared_ptr<Channel> SharedHub::join(std::int64_t parent, std::int64_t call,
                                         const std::vector<int>& members) {
  Header& header = this->header();
  std::uint32_t id = 0;
  {
    const std::lock_guard lock(header.failure);
    while (id < header.groups &&
           (header.names[id].parent != parent || header.names[id].call != call))
      ++id;
    if (id == kMostGroups)
      throw Error(ErrorKind::not_available,
                  concat("group: this launch has used up its ", kMostGroups,
                         " groups; groups are made once and kept"));
    header.names[id] = {parent, call};
    header.groups = std::max(header.groups, id + 1);
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Channel>& channel = channels_[id];
  if (!channel) channel = std::make_shared<Channel>(id, members);
  return channel;
}

void SharedHub::beat(int rank) { shared(member(rank).heartbeat).store(diagnosis::steady_now()); }

void SharedHub::pass_on(int rank, std::int64_t heartbeat) {
  auto own = shared(member(rank).heartbeat);  // no other rank writes it
  own.store(std::max(own.load(), heartbeat));
}

std::int64_t SharedHub::heartbeat(int rank) const { return shared(member(rank).heartbeat).load(); }

void SharedHub::set_waiting(int rank, std::optional<Waiting> waiting) {
  const processes::Status status{0, false, std::move(waiting), {}};
  Member& member = this->member(rank);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, channel] : channels_) {
      const auto own = std::find(channel->members.begin(), channel->members.end(), rank);
      shared(member.posted[id]).store(channel->posted[own - channel->members.begin()]);
    }
  }
  const std::lock_guard held(member.status);
  member.status.write(status);
}

// A group that this rank is in, too, has its members all told.
std::optional<Waiting> SharedHub::waiting(int rank) const {
  const std::vector<std::byte> text = member(rank).status.read();
  if (text.empty()) return {};
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
  return shared(member(rank).active).load() != 0 && lost(rank).empty();
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
  const std::lock_guard lock(header.failure);
  if (shared(header.failed).load()) return;
  header.failure.write(processes::in_words(failure));
  shared(header.failed).store(1);
}

const diagnosis::FirstFailure& SharedHub::failure() const {
  if (!failure_ && shared(header().failed).load()) {
    const std::vector<std::byte> text = header().failure.read();
    failure_.set(processes::from_words(std::get<processes::Failed>(processes::decode(text))));
  }
  return failure_;
}

void SharedHub::sleep(int, std::int64_t, double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLongestNap)));
}

bool SharedHub::all_have(std::uint32_t Member::*reached) const {
  for (int process = 0; process < processes_; ++process)
    if (!shared(member(process).*reached).load() && lost(process).empty()) return false;
  return true;
}

// A rank that has failed may be stuck: it is waited for no longer than the deadline.
void SharedHub::wait_for_all(std::uint32_t Member::*reached) {
  shared(member(process_).*reached).store(1);
  diagnosis::Patience patience;
  while (!all_have(reached)) {
    if (failure() && patience.seconds_since_change(0) > options_.deadline) return;
    sleep(process_, 0, kLongestNap);
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
  if (const auto failed = failure().get()) throw failed->thrown;
}

void SharedHub::require_equal_counts() {
  for (const auto& [id, channel] : channels_) {
    std::vector<std::int64_t> counts;
    for (const int rank : channel->members) counts.push_back(posted(*channel, rank));
    if (const auto error = diagnosis::unequal_counts(channel->members, counts)) return fail(*error);
  }
}

}  // namespace ringspan::comm::streams
