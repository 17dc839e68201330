// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/lanes.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace ringspan::comm::streams {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096;  // bytes; flags do not share a line
constexpr std::size_t kFlagsPerLane = 4;         // two of each side
// Soon enough for the wrap to be an everyday event.
constexpr std::uint32_t kFirstValue = std::uint32_t(0) - 100;
constexpr std::uint32_t kBeyond = std::uint32_t(1) << 30;  // is after all that may be waited for

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Those that begin here, and those that end here and begin elsewhere.
std::size_t lane_count(int ranks, int here) {
  return static_cast<std::size_t>(here) * (2 * static_cast<std::size_t>(ranks) - here);
}

std::size_t bytes_of_flags(std::size_t lanes) { return whole_pages(lanes * kFlagsPerLane * kLine); }

std::vector<int> all(int ranks) {
  std::vector<int> numbers(ranks);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

/// `halves` counts all that have been announced here, and one more when the second side has read
/// the first one's: three for each message of the slot.
struct Lanes::Slot {
  std::uint64_t halves;
  Offer offers[2];  // [sends]
};

/// Of a lane between machines, in messages: what the side here has announced, and how much of it
/// the other machine has been told.
struct Lanes::Progress {
  std::int64_t announced, told;
};

// [flags][slots][progress]
std::size_t Lanes::flag_bytes() const { return bytes_of_flags(lane_count(ranks_, here_)); }

std::size_t Lanes::bytes(int ranks, int here) {
  const std::size_t lanes = lane_count(ranks, here);
  return std::max(kPage,  // a machine may have no rank
                  bytes_of_flags(lanes) + lanes * (kSlots * sizeof(Slot) + sizeof(Progress)));
}

Lanes::Lanes(std::unique_ptr<const SharedMemory> memory, int ranks)
    : Lanes(std::move(memory), ranks, all(ranks)) {}

Lanes::Lanes(std::unique_ptr<const SharedMemory> memory, int ranks, const std::vector<int>& here)
    : shared_(std::move(memory)),
      memory_(shared_->data()),
      ranks_(ranks),
      here_(static_cast<int>(here.size())),
      place_(ranks, -1) {
  int next = 0;
  for (const int rank : here) place_[rank] = next++;
  for (int& place : place_)
    if (place < 0) place = next++;
}

void Lanes::start() {
  for (std::size_t i = 0; i < lane_count(ranks_, here_) * kFlagsPerLane; ++i)
    std::atomic_ref(flag(i * kLine)).store(kFirstValue);
}

// One of the two ranks is here.
std::size_t Lanes::lane(const Side& side) const {
  const auto from = static_cast<std::size_t>(place_[side.from]);
  const auto to = static_cast<std::size_t>(place_[side.to]);
  const auto here = static_cast<std::size_t>(here_);
  return from < here ? from * ranks_ + to : here * ranks_ + (from - here) * here + to;
}

Lanes::Slot& Lanes::slot(const Side& side, std::int64_t number) const {
  std::byte* const slots = memory_ + flag_bytes();
  return reinterpret_cast<Slot*>(slots)[lane(side) * kSlots + number % kSlots];
}

Lanes::Progress& Lanes::progress(const Side& side) const {
  std::byte* const slots = memory_ + flag_bytes();
  auto* const all =
      reinterpret_cast<Progress*>(slots + lane_count(ranks_, here_) * kSlots * sizeof(Slot));
  return all[lane(side)];
}

bool Lanes::room(const Side& side, std::int64_t number) const {
  if (is_here(side.rank()) && !is_here(side.peer()) &&
      number >= std::atomic_ref(progress(side).told).load() + kSlots)
    return false;
  return std::atomic_ref(slot(side, number).halves).load() >=
         static_cast<std::uint64_t>(number / kSlots) * 3;
}

bool Lanes::room(int rank, const Operation& operation) const {
  for (const auto* messages : {&operation.recvs, &operation.sends})
    for (const Message& message : *messages)
      if (!room(side(rank, message), message.number)) return false;
  return true;
}

std::optional<Offer> Lanes::announce(const Side& side, std::int64_t number, const Offer& offer) {
  Slot& slot = this->slot(side, number);
  slot.offers[side.sends] = offer;
  const std::atomic_ref halves(slot.halves);
  const bool first = halves.fetch_add(1) % 3 == 0;
  if (is_here(side.rank()) && !is_here(side.peer()))
    std::atomic_ref(progress(side).announced).store(number + 1);
  if (first) return {};
  const Offer other = slot.offers[!side.sends];
  halves.fetch_add(1);
  return other;
}

bool Lanes::has_met(const Side& side, std::int64_t number) const {
  return std::atomic_ref(slot(side, number).halves).load() >=
         static_cast<std::uint64_t>(number / kSlots) * 3 + 2;
}

void Lanes::pass_on(const Tell& tell) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!is_here(rank)) continue;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (is_here(peer)) continue;
      for (const bool sends : {true, false}) {
        const Side side = Lanes::side(rank, peer, sends);
        Progress& progress = this->progress(side);
        const std::int64_t announced = std::atomic_ref(progress.announced).load();
        for (std::int64_t number = progress.told; number < announced; ++number)
          tell(side, number, slot(side, number).offers[sends]);
        std::atomic_ref(progress.told).store(announced);
      }
    }
  }
}

std::uint32_t Lanes::value(std::int64_t number) {
  return kFirstValue + static_cast<std::uint32_t>(number + 1);
}

std::size_t Lanes::offset(const Side& side, Flag flag) const {
  const std::size_t place = (side.sends ? 2 : 0) + (flag == Flag::complete ? 1 : 0);
  return (lane(side) * kFlagsPerLane + place) * kLine;
}

void Lanes::poison(const Side& side, std::int64_t number) {
  for (const Flag flag : {Flag::ready, Flag::complete})
    std::atomic_ref(this->flag(offset(side.other(), flag))).store(value(number) + kBeyond);
}

}  // namespace ringspan::comm::streams
