// SPDX-License-Identifier: Apache-2.0
// The columns of nccl-tests, so that what reads them reads these too. Only the half, out of place
// or in place, that was measured holds numbers.
#include <fmt/format.h>

#include <algorithm>

#include "bench/primitives/rows.hpp"

namespace ringspan::bench {
namespace {

/// In a column of `width`: two decimals where they fit, fewer where not.
std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width - 6);
}

std::string measured(const PrimitiveRow& row) {
  const Bandwidth bandwidth = *row.bandwidth();
  return fmt::format("  {}  {}  {}  {:>6}", fitted(*row.median() * 1e6, 7),
                     fitted(bandwidth.algorithm * 1e-9, 6), fitted(bandwidth.bus * 1e-9, 6),
                     row.wrong("N/A"));
}

std::string line(const PrimitiveRow& row) {
  const NcclNotes& notes = row.timed.primitive->nccl;
  if (!row.median()) {
    return fmt::format("# {} bytes were refused: {}\n", row.timed.bytes, row.timed.refusal);
  }
  if (!row.bandwidth()) return fmt::format("# moves no data; {:.2f} us\n", *row.median() * 1e6);
  const std::string none = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", row.timed.bytes, row.timed.count,
                     "float", notes.reduction, notes.root, notes.in_place ? none : measured(row),
                     notes.in_place ? measured(row) : none);
}

std::string header(const PrimitiveRow& row) {
  const Stage& stage = row.stage;
  return fmt::format(
      "# ringspan primitives: {} on {}, {} ranks, {} per node, hops by {}; {}\n"
      "# Columns of nccl-tests, another rule. Here: median over {} iterations, each from a "
      "barrier, of the maximum\n"
      "# over ranks; short runs in batches. There: mean over iterations back to back and over "
      "ranks.\n"
      "#\n"
      "#{:>66}{:>31}\n"
      "#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  "
      "{:>6}\n"
      "#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}\n",
      row.timed.primitive->name, stage.transport, stage.ranks, stage.ranks_per_node, stage.hop,
      stage.machine, row.timed.seconds.size(), "out-of-place", "in-place", "size", "count", "type",
      "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
}

}  // namespace

std::string nccl_text(std::span<const PrimitiveRow> rows) {
  const auto timed = std::find_if(rows.begin(), rows.end(),
                                  [](const PrimitiveRow& row) { return row.median().has_value(); });
  std::string text = header(timed == rows.end() ? rows.front() : *timed);
  std::int64_t wrong = 0;
  double bus = 0;
  int measured = 0;
  for (const PrimitiveRow& row : rows) {
    text += line(row);
    wrong += row.timed.wrong;
    if (const std::optional<Bandwidth> bandwidth = row.bandwidth()) {
      bus += bandwidth->bus;
      ++measured;
    }
  }
  const std::string checked = rows.front().wrong("N/A") == "N/A"
                                  ? "N/A"
                                  : fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED");
  text += fmt::format("# Out of bounds values : {}\n", checked);
  if (measured > 0) text += fmt::format("# Avg bus bandwidth    : {:.6g}\n", bus / measured * 1e-9);
  return text + "#\n";
}

}  // namespace ringspan::bench
