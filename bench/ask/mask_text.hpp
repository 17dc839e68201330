// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/mask.hpp"
#include "attention/token_layout.hpp"

namespace ringspan::bench {

/// A mask as the command line names it: the library's masks, with the document lengths written
/// out or to be sampled.
struct MaskText {
  attention::Mask mask;
  std::vector<std::int64_t> documents = {};
  bool sampled = false;
};

/// full | causal | window:LEFT[:RIGHT] | documents:N,N,... | documents:sampled, joined by '+'.
/// Throws invalid_argument with one line.
MaskText parse_mask_text(std::string_view text);

/// The sequence of this length under that mask; sampled documents depend on `seed`.
attention::Sequence sequence(const MaskText& mask, std::int64_t length, std::uint64_t seed);

}  // namespace ringspan::bench
