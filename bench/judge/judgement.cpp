// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/judgement.hpp"

#include <algorithm>

#include "comm/error.hpp"

namespace ringspan::bench {

Result result_of(const Point& point, const Measurement& measurement, std::optional<double> flops) {
  Result result;
  result.metrics = metrics(measurement.times, point.ranks);
  const double seconds = result.metrics.median;
  result.tokens_per_s = static_cast<double>(point.batch * point.sequence_length) / seconds;
  if (flops) {
    result.tflops_per_rank = *flops / seconds / static_cast<double>(point.ranks) * 1e-12;
  }
  for (const comm::Traffic& rank : measurement.sent) {
    result.bytes_sent = std::max(result.bytes_sent, rank.bytes_sent);
    result.inter_node_bytes = std::max(result.inter_node_bytes, rank.inter_node_bytes_sent);
    result.messages_sent = std::max(result.messages_sent, rank.messages_sent);
  }
  result.peak_bytes = measurement.peak_bytes;
  if (measurement.deviation) result.max_abs_error = measurement.deviation->max_abs_error;
  return result;
}

std::string judge(const Measurement& measurement) {
  for (std::size_t rank = 0; rank < measurement.closed_form.size(); ++rank) {
    const comm::Traffic& sent = measurement.sent[rank];
    const attention::Traffic& due = measurement.closed_form[rank];
    if (sent.bytes_sent == due.bytes && sent.messages_sent == due.messages &&
        sent.inter_node_bytes_sent == due.inter_node_bytes) {
      continue;
    }
    return concat("invalid: rank ", rank, " sent ", sent.bytes_sent, " bytes (",
                  sent.inter_node_bytes_sent, " to other nodes) in ", sent.messages_sent,
                  " messages; the closed form says ", due.bytes, " (", due.inter_node_bytes,
                  ") in ", due.messages);
  }
  if (!measurement.deviation) return "ok";
  const Deviation& deviation = *measurement.deviation;
  if (deviation.wrong()) return "invalid: " + deviation.text();
  if (deviation.rows != measurement.sampled_rows) {
    return concat("invalid: the ranks hold ", deviation.rows, " of the ", measurement.sampled_rows,
                  " rows to be checked");
  }
  return "ok";
}

std::string judge_speed(const Point& point, const Result& result, double peak_gflops) {
  const double gflops = result.tflops_per_rank.value_or(0) * static_cast<double>(point.ranks) * 1e3;
  if (gflops <= peak_gflops) return "ok";
  return concat("invalid: ", gflops, " GFLOP/s exceed the peak of ", peak_gflops,
                " of what computed");
}

std::string judge_fit(const Result& result, const comm::Cluster& cluster) {
  if (result.peak_bytes <= cluster.gpu.memory_bytes) return "ok";
  return concat("does not fit: ", static_cast<double>(result.peak_bytes) * 1e-9,
                " GB per rank; a GPU has ", static_cast<double>(cluster.gpu.memory_bytes) * 1e-9);
}

}  // namespace ringspan::bench
