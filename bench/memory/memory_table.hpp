// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/published_row.hpp"

namespace ringspan::bench {

/// A published figure of memory, or of what fits into it, and what a formula makes of it.
struct MemoryFigure {
  FigureName name;
  std::string what;  // with the unit: "longest sequence, Ki tokens: 8 H100"
  double published = 0;
  double computed = 0;

  double error() const { return computed / published - 1; }
};

/// Figures of one kind, wherever their rows are found.
struct MemoryTable {
  std::string_view name;     // for --table
  std::string_view formula;  // what is computed, and what is assumed
  bool (*has)(const PublishedRow&);
  std::vector<MemoryFigure> (*read)(const std::vector<PublishedRow>&);  // rows that it has
};

/// All of them; a row belongs to the first that has it.
std::span<const MemoryTable> memory_tables();

bool has_rsa_growth(const PublishedRow& row);
std::vector<MemoryFigure> read_rsa_growth(const std::vector<PublishedRow>& rows);

bool has_rsa_longest(const PublishedRow& row);
std::vector<MemoryFigure> read_rsa_longest(const std::vector<PublishedRow>& rows);

bool has_megatron_memory(const PublishedRow& row);
std::vector<MemoryFigure> read_megatron_memory(const std::vector<PublishedRow>& rows);

bool has_blockwise_ratios(const PublishedRow& row);
std::vector<MemoryFigure> read_blockwise_ratios(const std::vector<PublishedRow>& rows);

bool has_blockwise_contexts(const PublishedRow& row);
std::vector<MemoryFigure> read_blockwise_contexts(const std::vector<PublishedRow>& rows);

bool has_checkpoint_bytes(const PublishedRow& row);
std::vector<MemoryFigure> read_checkpoint_bytes(const std::vector<PublishedRow>& rows);

bool has_alst_longest(const PublishedRow& row);
std::vector<MemoryFigure> read_alst_longest(const std::vector<PublishedRow>& rows);

}  // namespace ringspan::bench
