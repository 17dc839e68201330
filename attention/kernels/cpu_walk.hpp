// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "attention/kernels.hpp"
#include "attention/kernels/cpu_panel.hpp"

namespace ringspan::attention::cpu {

/// Rows of one head of one batch entry.
struct HeadRows {
  std::int64_t b, h;
  Rows rows;
};

/// What forward and backward do where the walk takes them. Queries and keys are loaded in blocks,
/// which stay packed until they are stored.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void load_queries(const HeadRows& queries) = 0;
  virtual void load_keys(const HeadRows& keys) = 0;
  /// The loaded queries from `query` on against the loaded keys from `key` on; `extent` says how
  /// many of both, and the band.
  virtual void compute(std::int64_t query, std::int64_t key, const PanelExtent& extent) = 0;
  virtual void store_keys(const HeadRows& keys) = 0;
  virtual void store_queries(const HeadRows& queries) = 0;
};

struct Blocks {
  std::int64_t queries;  // whole panels
  std::int64_t keys;
};

/// Takes `pass` to every panel of queries and block of keys that see something of each other, in
/// the order of the tiles. A block of queries is loaded once for all tiles that have the same
/// query rows. Polls the device after each panel.
void walk(const InstructionSet& set, const Blocks& blocks, std::span<const Tile> tiles,
          const ConstTensorView& q, const ConstTensorView& k, comm::Device& device, Pass& pass);

/// Lanes of a panel of so many queries.
constexpr std::int64_t panel_width(const InstructionSet& set, std::int64_t queries) {
  return std::min(set.width, (queries + set.lanes - 1) / set.lanes * set.lanes);
}

/// Queries in the panels that so many queries fill; at least one panel, at most a few dozen.
constexpr std::int64_t whole_panels(const InstructionSet& set, std::int64_t queries) {
  constexpr std::int64_t kMost = 2304;
  return std::clamp(queries, set.width, kMost) / set.width * set.width;
}

}  // namespace ringspan::attention::cpu
