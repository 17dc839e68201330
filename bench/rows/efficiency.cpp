// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/efficiency.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace ringspan::bench {
namespace {

const std::string& cell(const Cells& cells, std::string_view name) { return cells[column(name)]; }

/// What does not fit into a GPU's memory was simulated all the same, and takes the time it takes.
bool has_time(const Cells& row) {
  return cell(row, "status") == "ok" || cell(row, "status").starts_with("does not fit");
}

/// True for a row of one rank that solved the problem of `row` at another sequence length.
bool is_baseline(const Cells& candidate, const Cells& row, std::int64_t sequence_length) {
  constexpr std::string_view kSame[] = {"machine",  "world",    "transport", "device", "cluster",
                                        "kernel",   "pass",     "dtype",     "batch",  "heads",
                                        "kv_heads", "head_dim", "value_dim", "mask"};
  const bool same = std::all_of(std::begin(kSame), std::end(kSame), [&](std::string_view name) {
    return cell(candidate, name) == cell(row, name);
  });
  return same && has_time(candidate) && cell(candidate, "ranks") == "1" &&
         cell(candidate, "sequence_length") == std::to_string(sequence_length);
}

/// How near two rows are in what one rank hardly feels; what comes first counts most.
auto likeness(const Cells& candidate, const Cells& row) {
  const auto same = [&](std::string_view name) { return cell(candidate, name) == cell(row, name); };
  return std::array{same("schedule"), same("commit"), same("hop"), same("layout")};
}

/// The most alike, of the same schedule or of the ring.
const Cells* baseline(const Cells& row, std::int64_t sequence_length,
                      std::span<const Cells> finished) {
  const Cells* best = nullptr;
  for (const Cells& candidate : finished) {
    if (!is_baseline(candidate, row, sequence_length)) continue;
    const std::string& schedule = cell(candidate, "schedule");
    if (schedule != cell(row, "schedule") && schedule != "ring") continue;
    if (!best || likeness(candidate, row) > likeness(*best, row)) best = &candidate;
  }
  return best;
}

/// Zero if a file that somebody edited has no number there.
double figure(const Cells& cells, std::string_view name) {
  const std::string& text = cell(cells, name);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

void fill_efficiencies(Row& row, std::span<const Cells> finished) {
  if (!row.result || !row.result->tflops_per_rank) return;
  Result& result = *row.result;
  const std::int64_t length = row.point.sequence_length, ranks = row.point.ranks;
  if (ranks == 1) {
    result.strong_efficiency = result.weak_efficiency = 1;
    return;
  }
  const Cells own = cells(row);
  const Cells* strong = baseline(own, length, finished);
  if (const double seconds = strong ? figure(*strong, "median_s") : 0; seconds > 0) {
    result.strong_efficiency =
        strong_efficiency(seconds, static_cast<int>(ranks), result.metrics.median);
  }
  const Cells* weak = length % ranks == 0 ? baseline(own, length / ranks, finished) : nullptr;
  if (const double rate = weak ? figure(*weak, "tflops_per_rank") : 0; rate > 0) {
    result.weak_efficiency = weak_efficiency(rate, *result.tflops_per_rank);
  }
}

}  // namespace ringspan::bench
