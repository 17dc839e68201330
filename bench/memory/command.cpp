// SPDX-License-Identifier: Apache-2.0
#include "bench/memory/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/commit.hpp"
#include "bench/memory/memory_table.hpp"
#include "bench/rows/new_csv.hpp"
#include "bench/sweep.hpp"
#include "bench/validate/published_files.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

std::string number(double value) { return fmt::format("{:.10g}", value); }

void require_known(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    RINGSPAN_REQUIRE(std::any_of(memory_tables().begin(), memory_tables().end(),
                                 [&](const MemoryTable& table) { return table.name == name; }),
                     "--table: unknown table '", name, "'; known are ",
                     name_list(memory_tables(), &MemoryTable::name));
  }
}

/// [table]
std::vector<std::vector<MemoryFigure>> figures(const MemoryOptions& options) {
  std::vector<std::vector<PublishedRow>> rows(memory_tables().size());
  for (const std::string& file : published_files(options.published)) {
    for (PublishedRow& row : read_published(file)) {
      const auto table =
          std::find_if(memory_tables().begin(), memory_tables().end(),
                       [&](const MemoryTable& candidate) { return candidate.has(row); });
      if (table != memory_tables().end()) {
        rows[table - memory_tables().begin()].push_back(std::move(row));
      }
    }
  }
  std::vector<std::vector<MemoryFigure>> figures(rows.size());
  bool any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view name = memory_tables()[i].name;
    const auto& wanted = options.tables;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    figures[i] = memory_tables()[i].read(rows[i]);
    any = any || !figures[i].empty();
    RINGSPAN_REQUIRE(wanted.empty() || !figures[i].empty(),
                     "--table: no row that is published is of ", name);
  }
  RINGSPAN_REQUIRE(any, "--published: no row is about memory");
  return figures;
}

int compare(const MemoryOptions& options) {
  require_known(options.tables);
  const std::vector<std::vector<MemoryFigure>> all = figures(options);
  NewCsv csv(options.csv, {"table", "system", "figure", "row", "what", "published", "computed",
                           "error", "commit"});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) continue;
    const MemoryTable& table = memory_tables()[i];
    fmt::print("{}: {}\n  {:<80} {:>10} {:>10} {:>8}\n", table.name, table.formula, "", "published",
               "computed", "error");
    for (const MemoryFigure& figure : all[i]) {
      fmt::print("  {:<80} {:>10.5g} {:>10.5g} {:>+7.1f}%\n", figure.what, figure.published,
                 figure.computed, 100 * figure.error());
      csv.append({std::string(table.name), figure.name.system, figure.name.figure, figure.name.row,
                  figure.what, number(figure.published), number(figure.computed),
                  number(figure.error()), kCommit});
    }
    fmt::print("\n");
  }
  return kExitOk;
}

int count(const MemoryProblem& problem, const std::string& path) {
  NewCsv csv(path, {"model", "sequence_length", "batch", "tensor", "ranks", "what",
                    "bytes_per_rank", "commit"});
  fmt::print("{}, batch {} x {} tokens, tensor {}: MiB of one rank, by formulas\n  {:<50}",
             problem.model.name, problem.batch, problem.sequence_length, problem.tensor, "ranks");
  for (const std::int64_t ranks : problem.ranks) fmt::print(" {:>11}", ranks);
  for (const MemoryLine& line : memory_lines(problem)) {
    fmt::print("\n  {:<50}", line.what);
    for (std::size_t i = 0; i < line.bytes.size(); ++i) {
      fmt::print(" {:>11.1f}", line.bytes[i] / (1 << 20));
      csv.append({std::string(problem.model.name), std::to_string(problem.sequence_length),
                  std::to_string(problem.batch), std::to_string(problem.tensor),
                  std::to_string(problem.ranks[i]), line.what, number(line.bytes[i]), kCommit});
    }
  }
  fmt::print("\n");
  return kExitOk;
}

int measure(const MeasuredProblem& problem, const std::string& path) {
  NewCsv csv(path, {"sequence_length", "mode", "ranks", "kept_per_layer", "formula",
                    "megatron_sp_layer", "peak", "commit"});
  fmt::print("measured: {} tokens over a zigzag ring, fp32, KiB of the rank that has most\n{:>50}",
             problem.sequence_length, "ranks");
  for (const std::int64_t ranks : problem.ranks) fmt::print(" {:>9}", ranks);
  for (const MemoryMode& mode : memory_modes()) {
    std::vector<MeasuredMemory> all;
    for (const std::int64_t ranks : problem.ranks) {
      all.push_back(measure_memory(problem.sequence_length, static_cast<int>(ranks), mode));
      const MeasuredMemory& one = all.back();
      csv.append({std::to_string(problem.sequence_length), mode.what, std::to_string(ranks),
                  number(one.kept), number(one.formula), number(one.published), number(one.peak),
                  kCommit});
    }
    fmt::print("\n{}", mode.what);
    const auto line = [&](std::string_view what, double MeasuredMemory::*bytes) {
      fmt::print("\n  {:<48}", what);
      for (const MeasuredMemory& one : all) fmt::print(" {:>9.1f}", one.*bytes / 1024);
    };
    line("a layer keeps, measured", &MeasuredMemory::kept);
    line("a layer keeps, by what a block keeps", &MeasuredMemory::formula);
    if (mode.options.recompute == model::Recompute::none) {
      line("a layer keeps, by Megatron-SP's terms", &MeasuredMemory::published);
    }
    line("at the peak of three layers, measured", &MeasuredMemory::peak);
  }
  fmt::print("\n");
  return kExitOk;
}

}  // namespace

int count_memory(const MemoryOptions& options) {
  if (options.measured) return measure(*options.measured, options.csv);
  return options.problem ? count(*options.problem, options.csv) : compare(options);
}

}  // namespace ringspan::bench
