// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/validate_options.hpp"

#include "bench/ask/axes.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr OptionEntry kEntries[] = {
    {"--published",
     "a folder of CSVs, or a comma list of CSVs, in the columns of results/published "
     "[what comes with the program]"},
    {"--table", "which tables [all that have a row there]"},
    {"--csv", "write a row for each figure into a new file"},
};

}  // namespace

std::span<const OptionEntry> validate_option_entries() { return kEntries; }

ValidateOptions validate_options(const OptionTexts& texts) {
  ValidateOptions options;
  if (const auto given = texts.find("--published"); given != texts.end()) {
    options.published = items("--published", given->second);
  }
  if (const auto given = texts.find("--table"); given != texts.end()) {
    options.tables = items("--table", given->second);
  }
  if (const auto given = texts.find("--csv"); given != texts.end()) {
    options.csv = given->second;
    RINGSPAN_REQUIRE(!options.csv.empty(), "--csv: the file name is empty");
  }
  return options;
}

}  // namespace ringspan::bench
