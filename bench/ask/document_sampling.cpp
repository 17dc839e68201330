// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/document_sampling.hpp"

#include <algorithm>

#include "bench/random.hpp"

namespace ringspan::bench {
namespace {

constexpr LengthBin kBins[] = {
#include "bench/document_lengths.inc"  // {least, most, percent}, ... written by CMake from the CSV
};

/// The bin in which the running sum of percentages passes `fraction` of their total.
const LengthBin& bin_at(double fraction) {
  double total = 0;
  for (const LengthBin& bin : kBins) total += bin.percent;
  double left = fraction * total;
  for (const LengthBin& bin : kBins) {
    if (left < bin.percent) return bin;
    left -= bin.percent;
  }
  return std::end(kBins)[-1];  // rounding of the sum
}

}  // namespace

std::span<const LengthBin> document_length_bins() { return kBins; }

std::vector<std::int64_t> sample_documents(std::int64_t length, std::uint64_t seed) {
  const std::int64_t longest = std::max<std::int64_t>(length / 4, 1);
  std::vector<std::int64_t> documents;
  std::uint64_t draw = 0;
  for (std::int64_t left = length; left > 0;) {
    const LengthBin& bin = bin_at(random_fraction(seed, draw++));
    const std::int64_t drawn = bin.least + random_below(bin.most - bin.least + 1, seed, draw++);
    documents.push_back(std::min({drawn, longest, left}));
    left -= documents.back();
  }
  return documents;
}

}  // namespace ringspan::bench
