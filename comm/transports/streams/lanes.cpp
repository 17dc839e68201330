// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/streams/lanes.hpp"

#include <array>
#include <atomic>

namespace ringspan::comm::streams {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096;  // bytes; flags do not share a line
constexpr std::size_t kFlagsPerLane = 4;         // two of each side
// Soon enough for the wrap to be an everyday event.
constexpr std::uint32_t kFirstValue = std::uint32_t(0) - 100;
constexpr std::uint32_t kBeyond = std::uint32_t(1) << 30;  // is after all that may be waited for

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t squared(int ranks) { return static_cast<std::size_t>(ranks) * ranks; }

}  // namespace

/// `halves` counts all that have been announced here, and one more when the second side has read
/// the first one's: three for each message of the slot.
struct Lanes::Slot {
  std::uint64_t halves;
  Offer offers[2];  // [sends]
};

// [flags][slots]
std::size_t Lanes::flag_bytes() const {
  return whole_pages(squared(ranks_) * kFlagsPerLane * kLine);
}

std::size_t Lanes::bytes(int ranks) {
  return whole_pages(squared(ranks) * kFlagsPerLane * kLine) +
         squared(ranks) * kSlots * sizeof(Slot);
}

void Lanes::start() {
  for (std::size_t i = 0; i < squared(ranks_) * kFlagsPerLane; ++i)
    std::atomic_ref(flag(i * kLine)).store(kFirstValue);
}

Lanes::Slot& Lanes::slot(const Side& side, std::int64_t number) const {
  std::byte* const slots = memory_ + flag_bytes();
  return reinterpret_cast<Slot*>(slots)[lane(side) * kSlots + number % kSlots];
}

bool Lanes::room(const Side& side, std::int64_t number) const {
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
  if (halves.fetch_add(1) % 3 == 0) return {};
  const Offer other = slot.offers[!side.sends];
  halves.fetch_add(1);
  return other;
}

bool Lanes::has_met(const Side& side, std::int64_t number) const {
  return std::atomic_ref(slot(side, number).halves).load() >=
         static_cast<std::uint64_t>(number / kSlots) * 3 + 2;
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
