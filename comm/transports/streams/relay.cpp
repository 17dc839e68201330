// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/relay.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <type_traits>

#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/processes/notice.hpp"

namespace ringspan::comm::streams {
namespace {

constexpr int kTurn = 2;                        // milliseconds between turns, when nothing comes
constexpr std::int64_t kParting = 250'000'000;  // ns
constexpr double kLongestInterval = 0.1;        // seconds
constexpr double kReports = 8;                  // per deadline, however many machines pass on

enum class Kind : std::uint8_t { group, half, failure, report };

/// A half of a message, as it goes to the machine of the other side.
struct Half {
  Lanes::Side side;
  std::int64_t number = 0, channel = 0, sequence = 0, bytes = 0;
  decltype(Offer::operation) operation = {};
};

template <typename Value>
void append(std::vector<std::byte>& frame, const Value* values, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values);
  frame.insert(frame.end(), bytes, bytes + count * sizeof(Value));
}

template <typename Value>
std::vector<std::byte> framed(Kind kind, const Value& value) {
  std::vector<std::byte> frame{static_cast<std::byte>(kind)};
  append(frame, &value, 1);
  return frame;
}

std::vector<std::byte> failed(const std::vector<std::byte>& notice) {
  std::vector<std::byte> frame{static_cast<std::byte>(Kind::failure)};
  append(frame, notice.data(), notice.size());
  return frame;
}

/// The first values of what is left of a frame.
template <typename Value>
std::vector<Value> taken(std::span<const std::byte>& content, std::size_t count) {
  if (content.size() < count * sizeof(Value))
    throw Error(ErrorKind::system, "a word between hosts was cut short");
  std::vector<Value> values(count);
  if (count > 0) std::memcpy(values.data(), content.data(), count * sizeof(Value));
  content = content.subspan(count * sizeof(Value));
  return values;
}

template <typename Value>
Value taken(std::span<const std::byte>& content) {
  return taken<Value>(content, 1).front();
}

// News passes along a chain of waits, with an interval wherever that goes from machine to machine:
// it may do so at each rank, in their order.
std::int64_t interval(double deadline, int ranks, const Machines& machines) {
  int changes = 0;
  for (int rank = 0; rank < ranks; ++rank)
    changes += machines.of(rank) != machines.of((rank + 1) % ranks);
  const double seconds =
      std::min(kLongestInterval, deadline / (kReports * std::max(changes, machines.size())));
  return static_cast<std::int64_t>(1e9 * seconds);
}

void require_sense(bool condition) {
  if (!condition) throw Error(ErrorKind::system, "a word between hosts makes no sense");
}

}  // namespace

Relay::Relay(std::shared_ptr<SharedHub> hub, std::shared_ptr<Lanes> lanes, int machine,
             std::vector<std::unique_ptr<Link>> links)
    : hub_(std::move(hub)),
      lanes_(std::move(lanes)),
      machine_(machine),
      interval_(interval(hub_->options().deadline, hub_->size(), hub_->machines())),
      links_(std::move(links)),
      ready_(links_.size(), true),
      broken_(links_.size(), false),
      translation_(links_.size()),
      states_(hub_->machines().members(machine).size()) {
  for (const auto& link : links_)
    if (link) link->set_deadline(hub_->options().deadline);
  hub_->turn();
  for (int other = 0; other < hub_->machines().size(); ++other)
    hub_->hear(other);  // nobody has been silent yet
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  over_ = true;
  thread_.join();
}

void Relay::run() {
  while (!over_) {
    turn();
    sleep();
  }
  turn();
  part();
}

void Relay::turn() {
  hub_->turn();
  for (int machine = 0; machine < static_cast<int>(links_.size()); ++machine)
    if (links_[machine] && ready_[machine]) hear(machine);
  tell();
}

void Relay::sleep() {
  std::vector<pollfd> polled;
  for (const auto& link : links_) {  // poll() passes over negative ones
    const bool polls = link && link->events() != 0;
    polled.push_back({polls ? link->descriptor() : -1, polls ? link->events() : short{0}, 0});
  }
  poll(polled.data(), polled.size(), kTurn);
  // Who refused a frame is offered it again.
  for (std::size_t machine = 0; machine < polled.size(); ++machine)
    ready_[machine] = polled[machine].revents != 0 || (polled[machine].events & POLLIN) == 0;
}

// A link that is closed before all has been read would lose what is still on its way.
void Relay::part() {
  for (const auto& link : links_)
    if (link) link->close();
  const auto open = [](const auto& link) { return link && !link->ended(); };
  for (const std::int64_t end = diagnosis::steady_now() + kParting;
       diagnosis::steady_now() < end && std::any_of(links_.begin(), links_.end(), open); sleep()) {
    for (int machine = 0; machine < static_cast<int>(links_.size()); ++machine)
      if (open(links_[machine])) hear(machine);
  }
}

// What promises that others are there goes behind them, so it is read before them.
void Relay::tell() {
  const std::vector<Frame> reports = this->reports();
  const std::vector<std::byte> failure =
      failure_told_ ? std::vector<std::byte>() : hub_->failure_notice();
  const auto halves = this->halves();
  for (const GroupName& name : hub_->groups(groups_told_)) {
    tell_all(framed(Kind::group, name));
    ++groups_told_;
  }
  for (const auto& [machine, frame] : halves)
    if (links_[machine]) links_[machine]->send(frame);
  if (!failure.empty()) {
    tell_all(failed(failure));
    failure_told_ = true;
  }
  for (const Frame& frame : reports) tell_all(frame);
  for (const auto& link : links_)
    if (link) link->flush();
}

void Relay::tell_all(const Frame& frame) {
  for (const auto& link : links_)
    if (link) link->send(frame);
}

std::vector<Relay::Frame> Relay::reports() {
  const std::int64_t now = diagnosis::steady_now();
  const bool all = now - reported_at_ >= interval_;
  if (all) reported_at_ = now;
  std::vector<Frame> frames;
  const std::vector<int>& members = hub_->machines().members(machine_);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t state = hub_->state(members[i]);
    if (std::exchange(states_[i], state) == state && !all) continue;
    const Report report = hub_->report(members[i]);
    const auto status_bytes = static_cast<std::uint32_t>(report.status.size());
    Frame& frame = frames.emplace_back(framed(Kind::report, report.state));
    append(frame, &status_bytes, 1);
    append(frame, report.status.data(), report.status.size());
    append(frame, report.posted.data(), report.posted.size());
  }
  return frames;
}

std::vector<std::pair<int, Relay::Frame>> Relay::halves() {
  std::vector<std::pair<int, Frame>> frames;
  lanes_->pass_on([&](const Lanes::Side& side, std::int64_t number, const Offer& offer) {
    Half half{side, number, offer.channel, offer.sequence, offer.bytes, {}};
    std::memcpy(half.operation, offer.operation, sizeof(half.operation));
    frames.emplace_back(hub_->machines().of(side.peer()), framed(Kind::half, half));
  });
  return frames;
}

void Relay::hear(int machine) {
  Link& link = *links_[machine];
  try {
    link.advance(
        [&](std::span<const std::byte> frame) { return broken_[machine] || take(machine, frame); });
  } catch (const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    hub_->fail(Error(known ? known->kind() : ErrorKind::system,
                     concat(hub_->machines().host(machine), ": ", error.what()),
                     {hub_->machines().first(machine_), hub_->machines().first(machine)}));
    broken_[machine] = true;
    link.send(failed(hub_->failure_notice()));
    link.close();  // it ends when the other end has read that, and closes, too
  }
  if (!link.ended() || over_) return;
  hub_->cut_off(machine);
  links_[machine] = nullptr;
}

bool Relay::take(int machine, std::span<const std::byte> frame) {
  hub_->hear(machine);
  const auto kind = static_cast<Kind>(taken<std::byte>(frame));
  if (kind == Kind::half) return take_half(machine, frame);
  if (kind == Kind::group) {
    GroupName name = taken<GroupName>(frame);
    if (name.parent >= 0) name.parent = translated(machine, name.parent);
    translation_[machine].push_back(hub_->number_of(name));
  } else if (kind == Kind::failure) {
    const processes::Content content = processes::decode(frame);
    require_sense(std::holds_alternative<processes::Failed>(content));
    return hub_->fail(processes::encode(content), machine == 0);
  } else {
    require_sense(kind == Kind::report);
    take_report(machine, frame);
  }
  return true;
}

// The rank itself would be told at once if its half comes second; here, if it was first.
bool Relay::take_half(int machine, std::span<const std::byte> content) {
  const Half half = taken<Half>(content);
  const Lanes::Side& side = half.side;
  const int ranks = hub_->size();
  require_sense(side.from >= 0 && side.from < ranks && side.to >= 0 && side.to < ranks &&
                hub_->machines().of(side.rank()) == machine &&
                hub_->machines().of(side.peer()) == machine_ && half.number >= 0);
  if (!lanes_->room(side, half.number)) return false;  // the rank here is about to make some
  Offer offer{translated(machine, half.channel), half.sequence, half.bytes, {}, {}};
  std::memcpy(offer.operation, half.operation, sizeof(offer.operation));
  const auto other = lanes_->announce(side, half.number, offer);
  if (!other) return true;
  const Message message{side.peer(), {}, side.sends, half.number};
  const bool strict = hub_->options().debug.ledger;
  if (const auto wrong = mismatch(side.rank(), message, offer, *other, strict)) hub_->fail(*wrong);
  return true;
}

void Relay::take_report(int machine, std::span<const std::byte> content) {
  Report report;
  report.state = taken<ProcessState>(content);
  const int process = report.state.process;
  require_sense(process >= 0 && process < hub_->machines().processes() &&
                hub_->machines().of(process) == machine);
  report.status = taken<std::byte>(content, taken<std::uint32_t>(content));
  report.posted = taken<processes::Posted>(content, content.size() / sizeof(processes::Posted));
  for (processes::Posted& posted : report.posted)
    posted.channel = translated(machine, posted.channel);
  if (!report.status.empty()) {
    processes::Content content = processes::decode(report.status);
    auto* const status = std::get_if<processes::Status>(&content);
    require_sense(status != nullptr);
    if (status->waiting && status->waiting->group) {
      const diagnosis::Group& group = *status->waiting->group;
      status->waiting->group =
          std::make_shared<const diagnosis::Group>(translated(machine, group.id), group.members);
    }
    report.status = processes::encode(content);
  }
  hub_->mirror(report);
}

// Machines number groups as they come. A parent was there before, and was told before.
std::int64_t Relay::translated(int machine, std::int64_t group) const {
  const std::vector<std::int64_t>& known = translation_[machine];
  require_sense(group >= 0 && group < static_cast<std::int64_t>(known.size()));
  return known[group];
}

}  // namespace ringspan::comm::streams
