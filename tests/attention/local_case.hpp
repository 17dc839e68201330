// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/attention/local_attention.hpp"

namespace ringspan::attention {

/// Attention of one rank, by a name.
struct LocalCase {
  std::string name;
  std::int64_t length;
  Shape shape;
  std::string mask;
  std::optional<double> softcap = {};
  int blocks = 1;  // shards of keys, visiting one after the other
  LayoutKind layout = LayoutKind::contiguous;
  std::vector<std::int64_t> documents = {};
  bool sinks = false;

  Problem problem() const {
    return {.shape = shape,
            .sequence = {length, documents},
            .mask = parse_mask(mask),
            .softcap = softcap,
            .sinks = sinks};
  }
  KeyBlocks key_blocks(const Problem& of) const {
    return attention::key_blocks(of, shards(layout, of.sequence, blocks));
  }
};

}  // namespace ringspan::attention
