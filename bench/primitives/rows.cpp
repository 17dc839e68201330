// SPDX-License-Identifier: Apache-2.0
#include "bench/primitives/rows.hpp"

#include <fmt/format.h>

#include <vector>

#include "bench/commit.hpp"
#include "bench/judge/metrics.hpp"
#include "bench/rows/csv_line.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

std::string text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

std::optional<double> PrimitiveRow::median() const {
  if (timed.seconds.empty()) return std::nullopt;
  return bench::median(timed.seconds);
}

std::optional<Bandwidth> PrimitiveRow::bandwidth() const {
  const std::optional<double> seconds = median();
  if (!seconds || timed.primitive->factor == BusFactor::none) return std::nullopt;
  return bench::bandwidth(timed.primitive->factor, stage.ranks, timed.bytes, *seconds);
}

std::string PrimitiveRow::wrong(std::string_view unchecked) const {
  const bool simulated = comm::backend(stage.transport).world == "simulated";
  return simulated ? std::string(unchecked) : std::to_string(timed.wrong);
}

std::string csv_header() {
  return "machine,commit,world,transport,primitive,algorithm,ranks,ranks_per_node,hop,bytes,count,"
         "repeats,batch,median_s,p10_s,p90_s,algbw_bytes_per_s,busbw_bytes_per_s,wrong,status\n";
}

std::string csv_text(const PrimitiveRow& row) {
  const Timed& timed = row.timed;
  const Stage& stage = row.stage;
  std::vector<std::string> fields = {stage.machine,
                                     kCommit,
                                     std::string(comm::backend(stage.transport).world),
                                     stage.transport,
                                     std::string(timed.primitive->name),
                                     timed.algorithm,
                                     std::to_string(stage.ranks),
                                     std::to_string(stage.ranks_per_node),
                                     stage.hop,
                                     std::to_string(timed.bytes)};
  if (const std::optional<double> median = row.median()) {
    const std::optional<Bandwidth> bandwidth = row.bandwidth();
    fields.insert(fields.end(),
                  {std::to_string(timed.count), std::to_string(timed.seconds.size()),
                   std::to_string(timed.batch), text(*median), text(quantile(timed.seconds, 0.1)),
                   text(quantile(timed.seconds, 0.9)), bandwidth ? text(bandwidth->algorithm) : "",
                   bandwidth ? text(bandwidth->bus) : "", row.wrong(""),
                   timed.wrong == 0 ? "ok" : "invalid: wrong data"});
  } else {
    fields.insert(fields.end(), {"", "", "", "", "", "", "", "", "", timed.refusal});
  }
  return csv_line(fields);
}

std::string table_header() {
  return fmt::format("{:<10} {:>5}  {:<24} {:>12} {:>12} {:>12} {:>8} {:>8} {:>6}\n", "transport",
                     "ranks", "primitive", "bytes", "median us", "p90 us", "algbw", "busbw",
                     "wrong");
}

std::string table_text(const PrimitiveRow& row) {
  const Timed& timed = row.timed;
  const std::string algorithm =
      timed.primitive->name.ends_with("automatic") ? " " + timed.algorithm : "";
  const std::string head = fmt::format("{:<10} {:>5}  {:<24} {:>12}", row.stage.transport,
                                       row.stage.ranks, timed.primitive->name, timed.bytes);
  if (!row.median()) return head + " " + timed.refusal + "\n";
  const std::optional<Bandwidth> bandwidth = row.bandwidth();
  const auto giga = [](double value) { return fmt::format("{:.3f}", value * 1e-9); };
  return head + fmt::format(" {:>12.2f} {:>12.2f} {:>8} {:>8} {:>6}{}\n", *row.median() * 1e6,
                            quantile(timed.seconds, 0.9) * 1e6,
                            bandwidth ? giga(bandwidth->algorithm) : "",
                            bandwidth ? giga(bandwidth->bus) : "", row.wrong("-"), algorithm);
}

}  // namespace ringspan::bench
