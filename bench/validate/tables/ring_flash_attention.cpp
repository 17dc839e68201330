// SPDX-License-Identifier: Apache-2.0
// The README of ring-flash-attention: schedules on 8 GPUs. Its `theoretic` columns are
// FlashAttention-2 on one GPU with a rank's tokens alone, divided by the number of GPUs; they say
// how fast attention is.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/validate/tables/attention_operator.hpp"
#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

constexpr std::int64_t kPackTokens = 8192;

/// Documents of the packs that the variable-length benchmark takes in turn, on one GPU
/// (benchmark_varlen_kvpacked_func.py); on several, each document is as many times as long.
std::vector<std::vector<std::int64_t>> packs() {
  return {{8192}, {256, 7392, 544}, {4096, 4096}, {3104, 3200, 1600, 160, 128}};
}

std::vector<Point> packed(const Point& point, std::int64_t gpus) {
  std::vector<Point> points;
  for (const std::vector<std::int64_t>& documents : packs()) {
    std::string lengths;
    for (const std::int64_t tokens : documents) {
      lengths += concat(lengths.empty() ? "" : ",", tokens * gpus);
    }
    points.push_back(point);
    points.back().mask = concat("documents:", lengths, "+causal");
  }
  return points;
}

struct Column {
  std::string_view name, schedule, layout;
  bool variable;  // of lengths
  std::string_view metric;
};
constexpr Column kColumns[] = {
    {"ring", "ring", "", false, "iterations/s"},
    {"zigzag", "zigzag", "", false, "iterations/s"},
    {"stripe", "striped", "", false, "iterations/s"},
    {"varlen_zigzag", "zigzag", "", true, "iterations/s, packed documents"},
    {"llama3_all_gather", "all_gather_kv", "contiguous", true, "iterations/s, all-gather of keys"},
};

/// One line: a pass on one kind of GPU.
class Line {
 public:
  explicit Line(const PublishedRow& row)
      : row_(row), gpus_(gpus(row)), point_(operator_point(cluster_of(row), gpus_)) {
    point_.pass = row["pass"] == "forward+backward" ? "both" : row["pass"];
    point_.batch = row.integer("batch");
    point_.heads = row.integer("heads");
    point_.kv_heads = row.integer("kv_heads");
    point_.head_dim = row.integer("head_dim");
    point_.tokens_per_rank = row.integer("tokens_per_gpu");
  }

  /// One GPU does in turn what the others do beside it.
  OperatorFigure anchor(std::string_view column, bool variable) const {
    OperatorFigure figure = named(column, variable);
    Point alone = point_;
    alone.schedule = "ring";
    alone.ranks = 1;
    figure.points = variable ? packed(alone, 1) : std::vector{alone};
    figure.iterations_per_second *= static_cast<double>(gpus_);
    figure.anchor = figure.bare = true;
    return figure;
  }

  OperatorFigure figure(const Column& column) const {
    OperatorFigure figure = named(column.name, column.variable);
    Point point = point_;
    point.schedule = column.schedule;
    point.layout = column.layout;
    figure.points = column.variable ? packed(point, gpus_) : std::vector{point};
    figure.metric = column.metric;
    return figure;
  }

 private:
  OperatorFigure named(std::string_view column, bool variable) const {
    OperatorFigure figure;
    figure.name = {"ring-flash-attention", "README", concat(row_.place(), ' ', column)};
    figure.iterations_per_second = row_.figure(column);
    figure.problem = concat(row_["hardware"], ", ", row_["pass"], variable ? ", packed" : "");
    return figure;
  }

  const PublishedRow& row_;
  std::int64_t gpus_;
  Point point_;
};

}  // namespace

bool has_ring_flash_attention(const PublishedRow& row) { return row.has("theoretic"); }

Table read_ring_flash_attention(const std::vector<PublishedRow>& rows) {
  Table table;
  std::vector<OperatorFigure> figures;
  for (const PublishedRow& row : rows) {
    const Line line(row);
    const bool packs_known = row.integer("tokens_per_gpu") == kPackTokens;
    figures.push_back(line.anchor("theoretic", false));
    if (packs_known) figures.push_back(line.anchor("varlen_theoretic", true));
    for (const Column& column : kColumns) {
      if (packs_known || !column.variable) figures.push_back(line.figure(column));
    }
    table.omissions.push_back(
        {{"ring-flash-attention", "README", row.place() + " varlen_ring"},
         "it cuts each document in consecutive pieces; contiguous pieces here are of the pack"});
  }
  add(table, figures);
  table.constants = operator_constants(rows);
  table.constants.push_back({"merging a block", "38 bytes per element, eager", Mark::prediction,
                             "counted in the authors' code"});
  return table;
}

}  // namespace ringspan::bench
