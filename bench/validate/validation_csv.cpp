// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/validation_csv.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/commit.hpp"

namespace ringspan::bench {
namespace {

std::string text(double value) { return fmt::format("{:.6g}", value); }

/// An anchor that is met has no error, whatever its last bit says.
double rounded(double error) { return std::round(error * 1e6) / 1e6 + 0.0; }

}  // namespace

ValidationCsv::ValidationCsv(const std::string& path)
    : file_(path, {"system", "figure", "row", "metric", "published", "simulated", "naive", "error",
                   "naive_error", "mark", "reason", "commit", "table"}) {}

void ValidationCsv::append(const Validation& validation) {
  for (const ValidatedFigure& figure : validation.figures) {
    const auto off = [&](double predicted) {
      return text(rounded(error({"", figure.published, predicted}, validation.entry.absolute)));
    };
    file_.append({figure.name.system, figure.name.figure, figure.name.row, figure.metric,
                  text(figure.published), text(figure.simulated), text(figure.naive),
                  off(figure.simulated), off(figure.naive), std::string(name(figure.mark)), "",
                  kCommit, std::string(validation.entry.name)});
  }
  append(validation.omissions, validation.entry.name);
}

void ValidationCsv::append(std::span<const Omission> omissions, std::string_view table) {
  for (const Omission& omission : omissions) {
    file_.append({omission.name.system, omission.name.figure, omission.name.row, "", "", "", "", "",
                  "", "", omission.reason, kCommit, std::string(table)});
  }
}

}  // namespace ringspan::bench
