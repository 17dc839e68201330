// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "bench/oracle/check.hpp"
#include "bench/rows/csv_columns.hpp"
#include "bench/rows/csv_reader.hpp"
#include "bench/rows/csv_reporter.hpp"
#include "bench/rows/held_points.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace csv_test {

using testing::HasSubstr;

constexpr const char* kHeader =
    "machine,commit,world,transport,device,cluster,kernel,schedule,layout,pass,dtype,ranks,"
    "ranks_per_node,ulysses_degree,ring_degree,inner_ring,head_groups,placement,all_to_all,hop,"
    "backward,sequence_length,batch,heads,kv_heads,head_dim,value_dim,mask,repeats,median_s,p10_s,"
    "p90_s,"
    "compute_s,synchronised_s,communication_s,imbalance_s,exposed_s,serial_share,exposed_share,"
    "hidden,hideable,overlap_efficiency,compute_slowdown,tokens_per_s,tflops_per_rank,"
    "strong_efficiency,weak_efficiency,bytes_sent_per_rank,inter_node_bytes_per_rank,"
    "messages_sent_per_rank,peak_bytes_per_rank,max_abs_error,status\n";

class CsvTest : public testing::Test {
 protected:
  ~CsvTest() override { std::filesystem::remove(path_); }

  std::string text() const {
    std::ifstream file(path_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string refusal() const {
    try {
      read_csv(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "accepted";
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / concat("ringspan_csv_test_", getpid(), ".csv"))
          .string();
};

Row refused_row() {
  Row row{"A CPU, \"fast\" (2 cores)", "abc", "host"};
  row.point.schedule = "ring";
  row.point.mask = "documents:5,3+causal";
  row.status = "no, because";
  return row;
}

TEST_F(CsvTest, ColumnsAreTheContract) {
  CsvReporter(path_).append(cells(refused_row()));
  EXPECT_EQ(text().substr(0, text().find('\n') + 1), kHeader);
}

TEST_F(CsvTest, ReadsBackWhatItWrote) {
  Row measured = refused_row();
  measured.status = "ok";
  measured.repeats = 7;
  measured.result.emplace();
  measured.result->metrics.median = 0.125;
  measured.result->metrics.exposed = -0.5;
  measured.result->metrics.hidden = 0.25;
  measured.result->bytes_sent = INT64_C(1) << 40;
  {
    CsvReporter reporter(path_);
    reporter.append(cells(refused_row()));
    reporter.append(cells(measured));
  }
  CsvReporter(path_).append(cells(refused_row()));  // resumed: no second header
  const std::vector<Cells> rows = read_csv(path_);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], cells(refused_row()));
  EXPECT_EQ(rows[1], cells(measured));
  EXPECT_EQ(rows[1][column("machine")], "A CPU, \"fast\" (2 cores)");
  EXPECT_EQ(rows[1][column("median_s")], "0.125");
  EXPECT_EQ(rows[1][column("exposed_s")], "-0.5");
  EXPECT_EQ(rows[1][column("hidden")], "0.25");
  EXPECT_EQ(rows[1][column("hideable")], "");
  EXPECT_EQ(rows[1][column("bytes_sent_per_rank")], "1099511627776");
  EXPECT_EQ(rows[0][column("median_s")], "");
  EXPECT_EQ(rows[0][column("repeats")], "");
}

TEST_F(CsvTest, ReadsWhatASpreadsheetHasMarkedAsUtf8) {
  const std::string rows = kHeader + std::string(52, ',') + "\n";
  write(rows);
  const std::vector<Cells> plain = read_csv(path_);
  write("\xEF\xBB\xBF" + rows);
  EXPECT_EQ(read_csv(path_), plain);
  write("\xEF\xBB" + rows);
  EXPECT_THAT(refusal(), HasSubstr("column 1 is '\xEF\xBBmachine'"));
}

TEST_F(CsvTest, EveryAxisIsPartOfTheKey) {
  Cells row = cells(refused_row());
  const std::string before = key(row);
  for (std::size_t i = 0; i < row.size(); ++i) {
    Cells other = row;
    other[i] += "x";
    const bool axis = i >= column("transport") && i <= column("mask");
    EXPECT_EQ(key(other) != before, axis) << kColumns[i];
  }
}

TEST_F(CsvTest, PointsThatAreThereAreHeldWhoeverMeasuredThem) {
  Cells held = cells(refused_row()), missing = held, of_both = held;
  missing[column("ranks")] += "0";
  of_both[column("heads")] += "0";
  const std::vector<Cells> points{missing, held, of_both};
  Cells of_another = held, of_both_elsewhere = of_both;
  of_another[column("commit")] += "x";
  of_both_elsewhere[column("machine")] += "x";
  const HeldPoints here = held_points(points, std::vector{held, of_both_elsewhere, of_both});
  EXPECT_EQ(here.missing, std::vector<std::size_t>{0});
  EXPECT_EQ(here.elsewhere, 0u);
  const HeldPoints there = held_points(points, std::vector{of_another, of_both_elsewhere});
  EXPECT_EQ(there.missing, std::vector<std::size_t>{0});
  EXPECT_EQ(there.elsewhere, 2u);
}

TEST_F(CsvTest, RefusesOtherColumnsAndBrokenLines) {
  const std::string line = std::string(52, ',') + "\n";
  write(kHeader + line);
  EXPECT_EQ(refusal(), "accepted");
  write("");
  EXPECT_EQ(refusal(), "accepted");
  write("a,b\n1,2\n");
  EXPECT_THAT(refusal(), HasSubstr("column 1 is 'a' where this version writes 'machine'"));
  write(std::string(kHeader).substr(0, 100) + "\n");
  EXPECT_THAT(refusal(), HasSubstr("column"));
  write(std::string(kHeader).substr(0, std::string(kHeader).size() - 1));
  EXPECT_THAT(refusal(), HasSubstr("line 1: no line end"));
  write(kHeader + line + "1,2,3\n" + line);
  EXPECT_THAT(refusal(), HasSubstr("line 3: 3 fields where 53 are expected"));
  write(kHeader + line + std::string(52, ',') + "o");  // cut short while it was written
  EXPECT_THAT(refusal(), HasSubstr("line 3: 53 fields and no line end"));
  write(kHeader + line + "\"1,2\n");
  EXPECT_THAT(refusal(), HasSubstr("line 3: broken quotes"));
  write(kHeader + line + "1\"2\n");
  EXPECT_THAT(refusal(), HasSubstr("line 3: broken quotes"));
}

TEST_F(CsvTest, AnInvalidRowHoldsNoFigureThatIsNotFinite) {
  Row row = refused_row();
  row.result.emplace();
  row.result->max_abs_error = std::numeric_limits<double>::quiet_NaN();
  row.result->tokens_per_s = std::numeric_limits<double>::infinity();
  Deviation wrong;
  wrong.got = *row.result->max_abs_error;
  row.status = "invalid: " + wrong.text();
  CsvReporter(path_).append(cells(row));
  const std::vector<Cells> rows = read_csv(path_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][column("max_abs_error")], "");
  EXPECT_EQ(rows[0][column("tokens_per_s")], "");
  EXPECT_THAT(rows[0][column("status")], HasSubstr("is not finite"));
}

TEST_F(CsvTest, LeavesNoFileBehindWithoutRows) {
  { CsvReporter reporter(path_); }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THROW(CsvReporter("/nonexistent/sweep.csv"), Error);
}

TEST_F(CsvTest, TwoDoNotAppendToOneFile) {
  CsvReporter first(path_);
  try {
    CsvReporter second(path_);
    ADD_FAILURE() << "both append";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("is being written by another sweep"));
  }
  first.append(cells(refused_row()));
  EXPECT_EQ(read_csv(path_).size(), 1u);
}

/// A full disk takes part of a row, then nothing.
TEST_F(CsvTest, ARowThatDoesNotFitLeavesTheRowsBeforeItWhole) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  {
    CsvReporter reporter(path_);
    reporter.append(cells(refused_row()));
    const rlimit full{std::filesystem::file_size(path_) + 10, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    EXPECT_THROW(reporter.append(cells(refused_row())), Error);
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(read_csv(path_).size(), 1u);
    reporter.append(cells(refused_row()));
  }
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(read_csv(path_).size(), 2u);
}

TEST_F(CsvTest, KeepsAndCompletesAFileThatWasThere) {
  for (const char* before : {"", kHeader}) {
    write(before);
    { CsvReporter reporter(path_); }
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_EQ(text(), before);
    CsvReporter(path_).append(cells(refused_row()));
    EXPECT_EQ(read_csv(path_).size(), 1u);  // below one header
  }
}

}  // namespace csv_test
}  // namespace ringspan::bench
