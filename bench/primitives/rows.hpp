// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/primitives/timing.hpp"

namespace ringspan::bench {

/// Where primitives ran.
struct Stage {
  std::string machine, transport, hop;
  int ranks = 1, ranks_per_node = 1;  // on the fullest node
};

struct PrimitiveRow {
  Stage stage;
  Timed timed;

  /// Neither is there for a primitive that was refused, nor the second for one that moves no data.
  std::optional<double> median() const;
  std::optional<Bandwidth> bandwidth() const;

  /// Elements; `unchecked` in virtual time, where there is no data.
  std::string wrong(std::string_view unchecked) const;
};

/// A line per row, under one header.
std::string csv_header();
std::string csv_text(const PrimitiveRow& row);
std::string table_header();
std::string table_text(const PrimitiveRow& row);

/// All sizes of one primitive, at least one, in the columns of nccl-tests, below comments that say
/// by which other rule the numbers were taken.
std::string nccl_text(std::span<const PrimitiveRow> rows);

}  // namespace ringspan::bench
