// SPDX-License-Identifier: Apache-2.0
// The hub where processes are on several machines: what a relay tells of this one's, and hears of
// the others'.
#include <algorithm>

#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/streams/shared_hub_memory.hpp"

namespace ringspan::comm::streams {
namespace {

void raise(std::int64_t& value, std::int64_t to) {
  auto raised = shared(value);
  for (std::int64_t seen = raised.load(); seen < to && !raised.compare_exchange_weak(seen, to);) {
  }
}

}  // namespace

void SharedHub::turn() { shared(header().turned).store(diagnosis::steady_now()); }

void SharedHub::hear(int machine) {
  shared(member(machines_.first(machine)).heard).store(diagnosis::steady_now());
}

std::uint64_t SharedHub::state(int process) const {
  Member& member = this->member(process);
  std::uint64_t state = ended(process).empty() ? 0 : 1;
  for (std::uint32_t* flag : {&member.returned, &member.active, &member.ended, &member.left})
    state = 2 * state + shared(*flag).load();
  return state;
}

// The flags first, so that what they promise is in the rest. Machines have no common clock: here
// it is seen that a look is outdated.
Report SharedHub::report(int process) const {
  Member& member = this->member(process);
  const ProcessState state{process,
                           shared(member.returned).load(),
                           shared(member.active).load(),
                           shared(member.ended).load(),
                           shared(member.left).load(),
                           ended(process).empty() ? 0 : member.process.id,
                           shared(member.heartbeat).load()};
  const bool waits_no_more = outdated(shared(member.looked_at).load());
  Report report{
      state, waits_no_more ? processes::encode(processes::Status{}) : member.status.read(), {}};
  for (std::uint32_t id = 0; id < shared(header().groups).load(); ++id)
    if (const std::int64_t operations = shared(member.posted[id]).load())
      report.posted.push_back({id, operations});
  return report;
}

// The flags last.
void SharedHub::mirror(const Report& report) {
  const ProcessState& state = report.state;
  Member& member = this->member(state.process);
  for (const auto& [id, operations] : report.posted) shared(member.posted[id]).store(operations);
  if (const std::unique_lock held(member.status, std::try_to_lock); held && !report.status.empty())
    member.status.write(report.status);
  raise(header().newest, state.heartbeat);
  shared(member.heartbeat).store(state.heartbeat);
  shared(member.active).store(state.active);
  shared(member.returned).store(state.returned);
  shared(member.ended).store(state.ended);
  shared(member.left).store(state.left);
  shared(member.gone).store(state.gone);
}

std::vector<GroupName> SharedHub::groups(std::uint32_t first) const {
  Header& header = this->header();
  return {header.names.begin() + first, header.names.begin() + shared(header.groups).load()};
}

std::uint32_t SharedHub::number_of(const GroupName& name) {
  Header& header = this->header();
  if (!header.failure.lock_within(static_cast<std::int64_t>(1e9 * options_.deadline)))
    throw Error(ErrorKind::timeout,
                concat("group: a process of this host that is stopped holds their list (deadline ",
                       options_.deadline, " s)"));
  const std::unique_lock lock(header.failure, std::adopt_lock);
  std::uint32_t id = 0;
  while (id < header.groups &&
         (header.names[id].parent != name.parent || header.names[id].call != name.call))
    ++id;
  if (id == kMostGroups)
    throw Error(ErrorKind::not_available, concat("group: this launch has used up its ", kMostGroups,
                                                 " groups; groups are made once and kept"));
  if (id < header.groups) return id;
  header.names[id] = name;
  shared(header.groups).store(id + 1);
  return id;
}

std::vector<std::byte> SharedHub::failure_notice() const {
  if (!shared(header().failed).load()) return {};
  return header().failure.read();
}

bool SharedHub::fail(const std::vector<std::byte>& notice, bool decides) {
  Header& header = this->header();
  const std::unique_lock lock(header.failure, std::try_to_lock);
  if (!lock) return false;
  if (shared(header.failed).load() && !decides) return true;
  header.failure.write(notice);
  shared(header.failed).store(1);
  return true;
}

// The first process has held it, so that one is to blame.
void SharedHub::cut_off(int machine) {
  const int first = machines_.first(machine);
  const auto missing = [this](int process) { return process < size() && !returned(process); };
  const auto& members = machines_.members(machine);
  if (std::any_of(members.begin(), members.end(), missing))
    fail(Error(ErrorKind::peer_failed,
               concat("rank ", first, " is gone: the connection to its host, ",
                      machines_.host(machine), ", has ended"),
               {process_, first}));
  for (const int process : members) {
    auto gone = shared(member(process).gone);
    if (gone.load() == 0) gone.store(ProcessState::kCutOff);
  }
}

// Likewise of this machine's other processes.
void SharedHub::require_relay() {
  const int first = machines_.first(machines_.of(process_));
  if (machines_.size() == 1 || shared(member(first).left).load()) return;
  if (const std::string why = ended(first); !why.empty())
    fail(Error(ErrorKind::peer_failed,
               concat(first < size() ? "rank " : "process ", first, " is gone: ", why),
               {process_, first}));
}

bool SharedHub::answers(int rank) const { return silent(rank, options_.deadline / 2) < 0; }

// Ranks have their waits for this; a machine without any would wait for ever for one that is
// stopped.
void SharedHub::require_word() {
  for (int rank = 0; rank < size(); ++rank) {
    const int first = returned(rank) ? -1 : silent(rank, options_.deadline);
    const auto heard = [&] { return failure() || silent(rank, options_.deadline) < 0; };
    if (first < 0 || !diagnosis::had_its_chance(heard)) continue;
    return fail(Error(ErrorKind::timeout,
                      concat("word from ", machines_.host(machines_.of(first)), "; ",
                             first < size() ? "rank " : "process ", first,
                             " makes no progress (deadline ", options_.deadline, " s)"),
                      {process_, first}));
  }
}

// The first process of a machine of which, or by whose relay, nothing is heard of `rank`; -1: it
// is. By the time at which somebody is to be blamed, half a deadline is long.
int SharedHub::silent(int rank, double seconds) const {
  const int own = machines_.of(process_), machine = machines_.of(rank);
  if (machines_.size() == 1 || (machine == own && rank != machines_.first(own))) return -1;
  const auto is_old = [seconds](std::int64_t& time) {
    const auto age = static_cast<double>(diagnosis::steady_now() - shared(time).load());
    return age * 1e-9 > seconds;
  };
  if (is_old(header().turned)) return machines_.first(own);
  const int first = machines_.first(machine);
  return machine != own && is_old(member(first).heard) ? first : -1;
}

}  // namespace ringspan::comm::streams
