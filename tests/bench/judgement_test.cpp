// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/judgement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "bench/rows/efficiency.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Measurement two_ranks() {
  Measurement measurement;
  Times& times = measurement.times;
  for (auto* run : {&times.compute, &times.synchronised, &times.communication, &times.overlapped,
                    &times.kernel_compute, &times.kernel_overlapped, &times.hideable}) {
    run->assign(3, 0.5);
  }
  measurement.sent = {{100, 10, 2, 0}, {80, 20, 3, 0}};
  measurement.closed_form = {{100, 2, 10}, {80, 3, 20}};
  measurement.peak_bytes = 4096;
  return measurement;
}

TEST(JudgementTest, FiguresArePerRankAndTokensCountOnce) {
  Point point;
  point.ranks = 2;
  point.batch = 3;
  point.sequence_length = 100;
  const Result result = result_of(point, two_ranks(), 1e12);
  EXPECT_DOUBLE_EQ(result.tokens_per_s, 600);
  EXPECT_DOUBLE_EQ(result.tflops_per_rank.value(), 1);  // 1 TFLOP in half a second by two ranks
  EXPECT_EQ(result.bytes_sent, 100);
  EXPECT_EQ(result.inter_node_bytes, 20);
  EXPECT_EQ(result.messages_sent, 3);
  EXPECT_EQ(result.peak_bytes, 4096);
  EXPECT_FALSE(result.max_abs_error);
  EXPECT_FALSE(result_of(point, two_ranks(), std::nullopt).tflops_per_rank);
}

TEST(JudgementTest, OtherTrafficThanTheClosedFormIsInvalid) {
  EXPECT_EQ(judge(two_ranks()), "ok");
  Measurement bytes = two_ranks();
  bytes.sent[1].bytes_sent += 1;
  EXPECT_THAT(judge(bytes),
              StartsWith("invalid: rank 1 sent 81 bytes (20 to other nodes) in 3 messages"));
  Measurement messages = two_ranks();
  messages.sent[0].messages_sent -= 1;
  EXPECT_THAT(judge(messages), HasSubstr("the closed form says 100 (10) in 2"));
  Measurement between_nodes = two_ranks();
  between_nodes.sent[0].inter_node_bytes_sent += 1;
  EXPECT_THAT(judge(between_nodes), HasSubstr("sent 100 bytes (11 to other nodes)"));
}

TEST(JudgementTest, AWrongOrMissingRowIsInvalid) {
  Measurement measurement = two_ranks();
  measurement.deviation.emplace();
  measurement.deviation->rows = measurement.sampled_rows = 12;
  EXPECT_EQ(judge(measurement), "ok");
  measurement.sampled_rows = 13;
  EXPECT_THAT(judge(measurement), HasSubstr("hold 12 of the 13 rows"));
  measurement.sampled_rows = 12;
  measurement.deviation->got = 1;
  EXPECT_THAT(judge(measurement), StartsWith("invalid: out of batch 0"));
  measurement.deviation->got = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(judge(measurement), HasSubstr("is not finite"));
}

TEST(JudgementTest, FasterThanThePeakIsInvalid) {
  Point point;
  point.ranks = 2;
  Result result;
  result.tflops_per_rank = 0.1;
  EXPECT_EQ(judge_speed(point, result, 201), "ok");
  EXPECT_THAT(judge_speed(point, result, 199), StartsWith("invalid: 200 GFLOP/s exceed"));
}

/// A measured row of a ring unless told otherwise.
Row measured(std::int64_t ranks, std::int64_t tokens, double seconds,
             const char* schedule = "ring") {
  Row row{"machine", "commit", "host"};
  row.point.schedule = schedule;
  row.point.ranks = ranks;
  row.point.sequence_length = tokens;
  row.result.emplace();
  row.result->metrics.median = seconds;
  row.result->tflops_per_rank =
      static_cast<double>(tokens * tokens) / seconds / static_cast<double>(ranks);
  return row;
}

TEST(EfficiencyTest, ComparesWithOneRankOfTheSameSchedule) {
  const std::vector<Cells> finished{cells(measured(1, 8, 100)), cells(measured(1, 8, 40, "zigzag")),
                                    cells(measured(1, 4, 16, "zigzag"))};
  Row row = measured(2, 8, 25, "zigzag");
  fill_efficiencies(row, finished);
  EXPECT_DOUBLE_EQ(row.result->strong_efficiency.value(), 40.0 / (2 * 25));
  EXPECT_DOUBLE_EQ(row.result->weak_efficiency.value(), (64.0 / 25 / 2) / (16.0 / 16));
}

TEST(EfficiencyTest, FallsBackToTheRing) {
  const std::vector<Cells> finished{cells(measured(1, 8, 40)), cells(measured(1, 8, 9, "striped"))};
  Row row = measured(2, 8, 25, "usp");
  fill_efficiencies(row, finished);
  EXPECT_DOUBLE_EQ(row.result->strong_efficiency.value(), 0.8);
  EXPECT_FALSE(row.result->weak_efficiency);
}

TEST(EfficiencyTest, PrefersTheSameCommitThenHopThenLayout) {
  Row row = measured(2, 8, 25);
  row.point.layout = "striped";
  std::vector<Row> baselines(4, measured(1, 8, 10));  // each more alike than the one before
  for (std::size_t i = 0; i < baselines.size(); ++i) {
    baselines[i].result->metrics.median = static_cast<double>(10 * (i + 1));
    baselines[i].commit = i >= 1 ? row.commit : "another";
    baselines[i].point.hop = i >= 2 ? row.point.hop : "reference";
    baselines[i].point.layout = i >= 3 || i == 0 ? row.point.layout : "zigzag";
  }
  for (std::size_t count = 1; count <= baselines.size(); ++count) {
    std::vector<Cells> finished;
    for (std::size_t i = 0; i < count; ++i) finished.push_back(cells(baselines[i]));
    for (const bool reversed : {false, true}) {
      if (reversed) std::reverse(finished.begin(), finished.end());
      fill_efficiencies(row, finished);
      EXPECT_DOUBLE_EQ(row.result->strong_efficiency.value(), 10.0 * count / (2 * 25)) << count;
    }
  }
}

TEST(EfficiencyTest, OneRankIsItsOwnBaseline) {
  Row row = measured(1, 8, 25);
  fill_efficiencies(row, {});
  EXPECT_EQ(row.result->strong_efficiency, 1.0);
  EXPECT_EQ(row.result->weak_efficiency, 1.0);
}

TEST(EfficiencyTest, AnotherProblemMachineOrABadRowIsNoBaseline) {
  std::vector<Row> others(8, measured(1, 8, 40));
  others[0].machine = "another";
  others[1].point.heads = 2;
  others[2].point.mask = "full";
  others[3].point.pass = "backward";
  others[4].point.kernel = "reference";
  others[5].point.dtype = "bf16";
  others[6].status = "invalid: wrong";
  others[7].point.ranks = 2;
  std::vector<Cells> finished;
  for (const Row& row : others) finished.push_back(cells(row));
  Row row = measured(4, 8, 25);
  fill_efficiencies(row, finished);
  EXPECT_FALSE(row.result->strong_efficiency);
  EXPECT_FALSE(row.result->weak_efficiency);
}

TEST(EfficiencyTest, NothingWithoutWork) {
  Row row = measured(2, 8, 25);
  row.result->tflops_per_rank.reset();  // the null kernel
  fill_efficiencies(row, std::vector<Cells>{cells(measured(1, 8, 40))});
  EXPECT_FALSE(row.result->strong_efficiency);
}

}  // namespace
}  // namespace ringspan::bench
