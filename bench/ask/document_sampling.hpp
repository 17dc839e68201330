// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringspan::bench {

/// A share of all documents: those of least ... most tokens.
struct LengthBin {
  std::int64_t least, most;
  double percent;
};

/// results/published/document_lengths.csv, carried in the binary.
std::span<const LengthBin> document_length_bins();

/// Documents that together fill `length` tokens exactly: drawn from the bins (uniform within one),
/// none longer than a quarter of the pack, the last cut to what is left. The same for the same
/// length and seed on every machine.
std::vector<std::int64_t> sample_documents(std::int64_t length, std::uint64_t seed);

}  // namespace ringspan::bench
