// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/labels.hpp"

#include <algorithm>
#include <span>

namespace ringspan::bench {
namespace {

constexpr std::int64_t kPeriod = 61;       // prime, so that no power of two hides a shift
constexpr std::int64_t kMostRanks = 4096;  // apart by more than sources reach

std::span<float> elements(const comm::Slice& slice) {
  return {reinterpret_cast<float*>(slice.data()),
          static_cast<std::size_t>(slice.bytes() / kLabelBytes)};
}

/// Elements i that differ from base + factor * ((first + i) % kPeriod).
std::int64_t different(const comm::Slice& slice, std::int64_t base, std::int64_t factor,
                       std::int64_t first) {
  std::int64_t wrong = 0;
  for (const float element : elements(slice)) {
    wrong += element != static_cast<float>(base + factor * (first++ % kPeriod));
  }
  return wrong;
}

std::int64_t base_of(int source, int destination) { return source + kMostRanks * destination; }

}  // namespace

void write_labels(const comm::Slice& slice, int source, int destination, std::int64_t first) {
  for (float& element : elements(slice)) {
    element = static_cast<float>(base_of(source, destination) + first++ % kPeriod);
  }
}

void clear_labels(const comm::Slice& slice) { std::ranges::fill(elements(slice), -1.0f); }

std::int64_t wrong_labels(const comm::Slice& slice, int source, int destination) {
  return different(slice, base_of(source, destination), 1, 0);
}

std::int64_t wrong_sums(const comm::Slice& slice, int ranks, std::int64_t first) {
  const std::int64_t sources = std::int64_t{ranks} * (ranks - 1) / 2;
  return different(slice, sources, ranks, first);
}

}  // namespace ringspan::bench
