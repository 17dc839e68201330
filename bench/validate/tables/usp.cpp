// SPDX-License-Identifier: Apache-2.0
// Tables of USP (arXiv 2405.07719, github.com/feifeibear/long-context-attention), and whatever else
// is written down like them: attention alone, "ulysses=U ring=R" in the column config, and in the
// column metric "iter/s", the ring and the pass. Ulysses alone anchors the speed of attention.
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/tables/attention_operator.hpp"
#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kLong = 32 << 10;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The whole number behind `key`, as behind "ulysses=" in "ulysses=4 ring=2"; nothing: not there.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  std::int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

/// By the words of metrics and configurations.
std::string layout_of(std::string_view text) {
  if (contains(text, "zigzag") || contains(text, "lb-ring")) return "zigzag";
  if (contains(text, "strip")) return "striped";
  return "contiguous";
}

std::string pass_of(std::string_view metric) {
  if (contains(metric, "fwd+bwd")) return "both";
  return contains(metric, "bwd") ? "backward" : "forward";
}

/// What a line says of the problem; all but its schedule and pass.
Point usp_point(const PublishedRow& row, std::int64_t tokens, std::int64_t ulysses) {
  Point point = operator_point(cluster_of(row), row.integer("gpus"));
  point.schedule = "usp";
  point.ulysses_degree = ulysses;
  point.batch = row.integer("batch");
  point.heads = row.integer("heads");
  point.kv_heads = row.integer("kv_heads");
  point.head_dim = row.integer("head_dim");
  point.mask = row["mask"];
  point.sequence_length = tokens;
  return point;
}

OperatorFigure figure(FigureName name, const Point& point, double iterations_per_second) {
  OperatorFigure figure;
  figure.name = std::move(name);
  figure.points = {point};
  figure.iterations_per_second = iterations_per_second;
  figure.problem = concat(point.batch, " x ", point.sequence_length, " tokens, ", point.heads, ":",
                          point.kv_heads, " heads of ", point.head_dim, ", ", point.pass);
  figure.kernel = figure.problem;
  figure.anchor = point.ulysses_degree == point.ranks;
  return figure;
}

bool is_operator(const PublishedRow& row) {
  return row.has("metric") && row["metric"].starts_with("iter/s ") &&
         number_after(row["config"], "ulysses=");
}
bool is_usp(const PublishedRow& row) { return row["system"] == "USP"; }

}  // namespace

bool has_usp_paper(const PublishedRow& row) {
  return is_operator(row) && is_usp(row) && row["figure_id"] == "T4";
}
bool has_usp_long(const PublishedRow& row) {
  return is_operator(row) && is_usp(row) && row.integer("seq") >= kLong;
}
bool has_usp_short(const PublishedRow& row) { return is_operator(row) && is_usp(row); }
bool has_attention_operator(const PublishedRow& row) { return is_operator(row); }

Table read_attention_operator(const std::vector<PublishedRow>& rows) {
  Table table;
  std::vector<OperatorFigure> figures;
  for (const PublishedRow& row : rows) {
    if (row["value"] == "OOM") {
      table.omissions.push_back({row.name(), "it ran out of memory"});
      continue;
    }
    const std::string& metric = row["metric"];
    Point point = usp_point(row, row.integer("seq"), *number_after(row["config"], "ulysses="));
    point.layout = layout_of(metric);
    point.pass = pass_of(metric);
    figures.push_back(figure(row.name(), point, row.number("value")));
  }
  add(table, figures);
  if (!rows.empty()) table.constants = constants_of(cluster_of(rows.front()));
  return table;
}

bool has_usp_gqa(const PublishedRow& row) {
  return row.has("metric") && row["metric"] == "iter_per_s fwd;fwd+bwd";
}

Table read_usp_gqa(const std::vector<PublishedRow>& rows) {
  Table table;
  std::vector<OperatorFigure> figures;
  for (const PublishedRow& row : rows) {
    const std::string& config = row["config"];
    Point point = usp_point(row, kLong, number_after(config, "u=").value_or(1));
    point.layout = layout_of(config);
    std::size_t which = 0;
    for (const char* pass : {"forward", "both"}) {
      point.pass = pass;
      figures.push_back(figure(row.name(pass), point, row.number("value", which++)));
    }
  }
  add(table, figures);
  if (!rows.empty()) table.constants = constants_of(cluster_of(rows.front()));
  return table;
}

}  // namespace ringspan::bench
