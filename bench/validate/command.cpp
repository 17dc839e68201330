// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/interrupt.hpp"
#include "bench/sweep.hpp"
#include "bench/validate/published_files.hpp"
#include "bench/validate/summary.hpp"
#include "bench/validate/tables/tables.hpp"
#include "bench/validate/validation_csv.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

/// Rows by the table that has them.
struct Sorted {
  std::vector<std::vector<PublishedRow>> of_table;
  std::vector<Omission> others;
};

Sorted sorted(const std::vector<std::string>& files) {
  Sorted sorted;
  sorted.of_table.resize(tables().size());
  for (const std::string& file : files) {
    for (PublishedRow& row : read_published(file)) {
      const auto table = std::find_if(tables().begin(), tables().end(),
                                      [&](const TableEntry& entry) { return entry.has(row); });
      if (table == tables().end()) {
        sorted.others.push_back({row.name(), why_not(row)});
      } else {
        sorted.of_table[table - tables().begin()].push_back(std::move(row));
      }
    }
  }
  return sorted;
}

void require_known(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    RINGSPAN_REQUIRE(std::any_of(tables().begin(), tables().end(),
                                 [&](const TableEntry& entry) { return entry.name == name; }),
                     "--table: unknown table '", name, "'; known are ",
                     name_list(tables(), &TableEntry::name));
  }
}

}  // namespace

int validate(const ValidateOptions& options) {
  require_known(options.tables);
  comm::backend("simulated");  // or says that this build has none
  const Sorted rows = sorted(published_files(options.published));

  std::vector<std::pair<const TableEntry*, Table>> chosen;
  for (std::size_t i = 0; i < tables().size(); ++i) {
    const TableEntry& entry = tables()[i];
    const std::vector<std::string>& names = options.tables;
    const bool wanted =
        names.empty() || std::find(names.begin(), names.end(), entry.name) != names.end();
    if (wanted && !rows.of_table[i].empty())
      chosen.emplace_back(&entry, entry.read(rows.of_table[i]));
  }
  RINGSPAN_REQUIRE(!chosen.empty(), "--published: no row belongs to a table that can be predicted");

  ValidationCsv csv(options.csv);
  Simulator described(Simulator::Model::described), naive(Simulator::Model::naive);
  try {
    for (auto& [entry, table] : chosen) {
      const Validation validation = validate(*entry, std::move(table), described, naive);
      fmt::print("{}\n", summary(validation));
      std::fflush(stdout);
      csv.append(validation);
    }
  } catch (const Error&) {
    if (interrupted()) return kExitInterrupted;  // finished tables are kept
    throw;
  }
  if (options.tables.empty() && !rows.others.empty()) {
    fmt::print("in no table:\n{}", summary(rows.others));
    csv.append(rows.others);
  }
  return kExitOk;
}

}  // namespace ringspan::bench
