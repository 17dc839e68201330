// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/csv_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <initializer_list>

namespace ringspan::bench {
namespace {

std::string text(const std::string& value) { return value; }
/// A value that is not finite is no figure; the row's status says what went wrong.
std::string text(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : ""; }
std::string text(const std::optional<double>& value) { return value ? text(*value) : ""; }
std::string text(std::int64_t value) { return fmt::format("{}", value); }
std::string nonzero(std::int64_t value) { return value == 0 ? "" : text(value); }

/// Writes the cells from one column on, one after the other.
class Writer {
 public:
  Writer(Cells& cells, std::string_view first) : cells_(cells), next_(column(first)) {}

  template <typename... Values>
  void write(const Values&... values) {
    ((cells_[next_++] = text(values)), ...);
  }

 private:
  Cells& cells_;
  std::size_t next_;
};

void write(const Point& point, Cells& cells) {
  Writer writer(cells, "transport");
  writer.write(point.transport, point.device, point.cluster, point.kernel, point.schedule,
               point.layout, point.pass, point.dtype, point.ranks, point.ranks_per_node,
               nonzero(point.ulysses_degree), nonzero(point.ring_degree), nonzero(point.inner_ring),
               nonzero(point.head_groups), point.placement, point.all_to_all, point.hop,
               point.backward, point.sequence_length, point.batch, point.heads, point.kv_heads,
               point.head_dim, point.value_dim, point.mask);
}

void write(const Result& result, Cells& cells) {
  const Metrics& m = result.metrics;
  Writer writer(cells, "median_s");
  writer.write(m.median, m.p10, m.p90, m.compute, m.synchronised, m.communication, m.imbalance,
               m.exposed, m.serial_share, m.exposed_share, m.hidden, m.hideable,
               m.overlap_efficiency, m.compute_slowdown, result.tokens_per_s,
               result.tflops_per_rank, result.strong_efficiency, result.weak_efficiency,
               result.bytes_sent, result.inter_node_bytes, result.messages_sent, result.peak_bytes,
               result.max_abs_error);
}

}  // namespace

std::size_t column(std::string_view name) {
  const auto* found = std::find(kColumns.begin(), kColumns.end(), name);
  assert(found != kColumns.end());
  return static_cast<std::size_t>(found - kColumns.begin());
}

Cells cells(const Row& row) {
  Cells cells;
  Writer(cells, "machine").write(row.machine, row.commit, row.world);
  write(row.point, cells);
  if (row.result) {
    Writer(cells, "repeats").write(std::int64_t{row.repeats});
    write(*row.result, cells);
  }
  Writer(cells, "status").write(row.status);
  return cells;
}

std::string key(const Cells& row) {
  std::string axes;
  for (std::size_t i = column("transport"); i <= column("mask"); ++i) axes += row[i] + '\n';
  return axes;
}

}  // namespace ringspan::bench
