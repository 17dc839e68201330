// SPDX-License-Identifier: Apache-2.0
// Tables of USP (arXiv 2405.07719, github.com/feifeibear/long-context-attention), and whatever else
// is written down like them: attention alone, "ulysses=U ring=R" in the column config, and in the
// column metric "iter/s", the ring and the pass. Ulysses alone anchors the speed of attention.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/validate/tables/attention_operator.hpp"
#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kLong = 32 << 10;
constexpr std::int64_t kGqaTokens = 32 << 10;  // 4Ki on each of 8, by the authors' arithmetic

/// By the words of metrics and configurations.
std::string layout_of(std::string_view text) {
  if (contains(text, "zigzag") || contains(text, "lb-ring")) return "zigzag";
  if (contains(text, "strip")) return "striped";
  return "contiguous";
}

/// Q, K and V exchanged at once or one after the other are two programs, each with its anchors.
std::string_view packing_of(std::string_view metric) {
  if (contains(metric, "no_packed")) return ", unpacked";
  return contains(metric, "qkvpack") ? ", packed" : "";
}

std::string pass_of(std::string_view metric) {
  if (contains(metric, "fwd+bwd")) return "both";
  return contains(metric, "bwd") ? "backward" : "forward";
}

/// What a line says of the problem; all but its schedule and pass.
Point usp_point(const PublishedRow& row, std::int64_t tokens, std::int64_t ulysses) {
  Point point = operator_point(cluster_of(row), gpus(row));
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

OperatorFigure figure(FigureName name, const Point& point, double iterations_per_second,
                      std::string_view packing = "") {
  OperatorFigure figure;
  figure.name = std::move(name);
  figure.points = {point};
  figure.iterations_per_second = iterations_per_second;
  figure.program = packing;
  figure.problem = concat(point.batch, " x ", point.sequence_length, " tokens, ", point.heads, ":",
                          point.kv_heads, " heads of ", point.head_dim, ", ", point.pass, packing);
  figure.anchor = point.ulysses_degree == point.ranks;
  figure.metric = concat("iterations/s, ", point.sequence_length >> 10, "Ki tokens");
  return figure;
}

/// A problem without anchors of its own takes those of the nearest number of heads.
void find_kernels(std::vector<OperatorFigure>& figures) {
  const auto alike = [](const OperatorFigure& one, const OperatorFigure& other) {
    const Point &a = one.points.front(), &b = other.points.front();
    return std::tie(a.sequence_length, a.batch, a.head_dim, a.pass, a.mask, a.cluster, a.kernel,
                    one.program) == std::tie(b.sequence_length, b.batch, b.head_dim, b.pass, b.mask,
                                             b.cluster, b.kernel, other.program);
  };
  for (OperatorFigure& figure : figures) {
    const Point& point = figure.points.front();
    std::int64_t nearest = std::numeric_limits<std::int64_t>::max();
    for (const OperatorFigure& other : figures) {
      const Point& anchor = other.points.front();
      if (!other.anchor || !alike(figure, other)) continue;
      const std::int64_t distance = std::abs(point.heads - anchor.heads);
      if (distance < nearest || (distance == nearest && other.problem == figure.problem)) {
        figure.kernel = other.problem;
        nearest = distance;
      }
    }
    if (!figure.kernel.empty() && nearest > 0) figure.metric += ", anchors of other heads";
  }
}

/// How a block is merged; the authors' code can do either, depending on the age of PyTorch.
struct Merging {
  bool fused;
  Mark mark;  // fit: whatever the table's rows fit better
};

Table table_of(std::vector<OperatorFigure> figures, const std::vector<PublishedRow>& rows,
               const Merging& merging) {
  for (OperatorFigure& figure : figures) {
    figure.mark = merging.mark;
    if (merging.fused) figure.points.front().kernel += "+fused";
  }
  find_kernels(figures);
  Table table;
  add(table, figures);
  table.constants = operator_constants(rows);
  table.constants.push_back(
      {"merging a block",
       merging.fused ? "10 bytes per element, fused" : "38 bytes per element, eager", merging.mark,
       "counted in the authors' code, which PyTorch may fuse"});
  return table;
}

Table read(const std::vector<PublishedRow>& rows, const Merging& merging) {
  std::vector<Omission> omissions;
  std::vector<OperatorFigure> figures;
  for (const PublishedRow& row : rows) {
    if (row["value"] == "OOM") {
      omissions.push_back({row.name(), "it ran out of memory"});
      continue;
    }
    const std::string& metric = row["metric"];
    Point point = usp_point(row, row.integer("seq"), row.degree("ulysses="));
    point.layout = layout_of(metric);
    point.pass = pass_of(metric);
    for (const std::string_view library : {"fa3", "fa4", "cudnn"}) {
      if (contains(row["config"], library)) point.kernel = concat("modelled:", library);
    }
    figures.push_back(figure(row.name(), point, row.figure("value"), packing_of(metric)));
  }
  Table table = table_of(std::move(figures), rows, merging);
  table.omissions = std::move(omissions);
  return table;
}

bool is_operator(const PublishedRow& row) {
  return row.has("metric") && row["metric"].starts_with("iter/s ") &&
         row.number_behind("config", "ulysses=");
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

bool has_usp_gqa(const PublishedRow& row) {
  return row.has("metric") && row["metric"] == "iter_per_s fwd;fwd+bwd";
}

Table read_usp_paper(const std::vector<PublishedRow>& rows) {
  return read(rows, {true, Mark::fit});
}
Table read_usp_readme(const std::vector<PublishedRow>& rows) {
  return read(rows, {false, Mark::fit});
}
Table read_attention_operator(const std::vector<PublishedRow>& rows) {
  return read(rows, {false, Mark::prediction});
}

Table read_usp_gqa(const std::vector<PublishedRow>& rows) {
  std::vector<OperatorFigure> figures;
  for (const PublishedRow& row : rows) {
    Point point = usp_point(row, kGqaTokens, row.degree("u="));
    point.layout = layout_of(row["config"]);
    std::size_t which = 0;
    for (const char* pass : {"forward", "both"}) {
      point.pass = pass;
      figures.push_back(figure(row.name(pass), point, row.figure("value", which++)));
    }
  }
  return table_of(std::move(figures), rows, {true, Mark::fit});
}

}  // namespace ringspan::bench
