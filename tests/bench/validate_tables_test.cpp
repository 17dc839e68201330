// SPDX-License-Identifier: Apache-2.0
// What is read from published tables; nothing is simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/validate/table.hpp"
#include "bench/validate/tables/tables.hpp"
#include "comm/error.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;

/// All rows of results/published, by the table that has them.
const std::map<std::string, std::vector<PublishedRow>>& published() {
  static const auto rows = [] {
    std::map<std::string, std::vector<PublishedRow>> rows;
    for (const auto& file : std::filesystem::directory_iterator(RINGSPAN_PUBLISHED)) {
      if (file.path().extension() != ".csv") continue;
      for (PublishedRow& row : read_published(file.path().string())) {
        std::string name;
        for (const TableEntry& table : tables()) {
          if (name.empty() && table.has(row)) name = table.name;
        }
        rows[name].push_back(std::move(row));
      }
    }
    return rows;
  }();
  return rows;
}

Table read(std::string_view name) {
  for (const TableEntry& table : tables()) {
    if (table.name == name) return table.read(published().at(std::string(name)));
  }
  throw std::out_of_range("no such table");
}

std::vector<FigureName> anchors(const Table& table) {
  std::vector<FigureName> names;
  for (const Calibration& calibration : table.calibrations) {
    for (const Anchor& anchor : calibration.anchors) names.push_back(anchor.name);
  }
  for (const Figure& figure : table.figures) {
    if (figure.mark == Mark::calibration) names.push_back(figure.name);
  }
  return names;
}

TEST(ValidateTablesTest, NoTablePredictsWhatItIsCalibratedBy) {
  for (const TableEntry& entry : tables()) {
    if (published().count(std::string(entry.name)) == 0) continue;
    const Table table = read(entry.name);
    std::set<FigureName> seen;
    for (const FigureName& anchor : anchors(table)) {
      EXPECT_TRUE(seen.insert(anchor).second) << entry.name << ": " << anchor.row;
    }
    for (const Figure& figure : table.figures) {
      if (figure.mark == Mark::calibration) continue;
      EXPECT_TRUE(seen.insert(figure.name).second) << entry.name << ": " << figure.name.row;
    }
  }
}

TEST(ValidateTablesTest, EveryRowIsPredictedOrAnchorsOrIsLeftOutWithAReason) {
  for (const TableEntry& entry : tables()) {
    const auto rows = published().find(std::string(entry.name));
    if (rows == published().end()) continue;
    const Table table = read(entry.name);
    std::string names;
    for (const FigureName& anchor : anchors(table)) names += anchor.row + " \n";
    for (const Figure& figure : table.figures) names += figure.name.row + " \n";
    for (const Omission& omission : table.omissions) {
      names += omission.name.row + " \n";
      EXPECT_NE(omission.reason, "") << omission.name.row;
    }
    for (const PublishedRow& row : rows->second) {
      EXPECT_THAT(names, HasSubstr(row.place() + " ")) << entry.name;
    }
  }
  for (const PublishedRow& row : published().at("")) EXPECT_NE(why_not(row), "");
}

TEST(ValidateTablesTest, UspIsAnchoredByUlyssesAloneOfTheSameProblem) {
  const Table table = read("usp-long");
  std::size_t anchored = 0;
  for (const Calibration& calibration : table.calibrations) {
    for (const Anchor& anchor : calibration.anchors) {
      EXPECT_EQ(anchor.points.front().ulysses_degree, 8) << anchor.name.row;
      EXPECT_EQ(anchor.points.front().sequence_length % (32 << 10), 0);
      ++anchored;
    }
  }
  EXPECT_GE(anchored, 12u);
  EXPECT_GT(table.figures.size(), 2 * anchored);
}

TEST(ValidateTablesTest, RingFlashAttentionIsAnchoredByOneGpuWithARanksTokens) {
  const Table table = read("ring-flash-attention");
  ASSERT_EQ(table.calibrations.size(), 8u) << "two GPUs, two passes, with and without packs";
  for (const Calibration& calibration : table.calibrations) {
    ASSERT_EQ(calibration.anchors.size(), 1u);
    const Anchor& anchor = calibration.anchors[0];
    EXPECT_TRUE(anchor.bare);
    EXPECT_EQ(anchor.points[0].ranks, 1);
    EXPECT_EQ(anchor.points[0].tokens_per_rank, 8192);
  }
  ASSERT_EQ(table.figures.size(), 20u);
  const Figure& figure = table.figures[0];
  EXPECT_EQ(figure.name.row, "ring_flash_attn_readme.csv:2 ring");
  EXPECT_DOUBLE_EQ(figure.published, 38.5);
}

// 16Ki tokens on four devices are one row of tiles each: nothing can be skipped.
TEST(ValidateTablesTest, StripedAttentionGainsNothingWhereTilesAreAsLargeAsBlocks) {
  const Table table = read("striped-gpu");
  Simulator described(Simulator::Model::described), naive(Simulator::Model::naive);
  ASSERT_EQ(table.figures.size(), 42u);
  EXPECT_DOUBLE_EQ(table.figures[0].published, 0.95);
  EXPECT_DOUBLE_EQ(table.figures[0].predict(described), 1);
  EXPECT_NEAR(table.figures[0].predict(naive), 1.46, 0.03) << "as the paper counts";
  const Figure& anchor = table.figures[40];
  EXPECT_EQ(anchor.mark, Mark::calibration);
  EXPECT_DOUBLE_EQ(anchor.predict(described), anchor.published);
}

TEST(ValidateTablesTest, RingAttentionsSmallestBlocksAreFlopsOverBandwidth) {
  const Table table = read("ring-attention-blocks");
  Simulator simulator(Simulator::Model::described);
  ASSERT_EQ(table.figures.size(), 10u);
  for (const Figure& figure : table.figures) {
    EXPECT_NEAR(figure.predict(simulator), figure.published, 0.021 * figure.published)
        << figure.name.row;
  }
}

class PublishedRowTest : public testing::Test {
 protected:
  ~PublishedRowTest() override { std::filesystem::remove(path_); }
  std::vector<PublishedRow> rows(const std::string& text) const {
    std::ofstream(path_) << text;
    return read_published(path_);
  }
  template <typename Read>
  static std::string refusal(const Read& read) {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "";
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / concat("ringspan_published_", getpid(), ".csv");
};

TEST_F(PublishedRowTest, ColumnsAreFoundByName) {
  const PublishedRow row = rows("seq,value\n32K,\"1.5;2.5\"\n")[0];
  EXPECT_EQ(row.integer("seq"), 32768);
  EXPECT_DOUBLE_EQ(row.number("value"), 1.5);
  EXPECT_DOUBLE_EQ(row.number("value", 1), 2.5);
  EXPECT_FALSE(row.has("gpus"));
  EXPECT_THAT(row.place(), testing::EndsWith(".csv:2"));
}

TEST_F(PublishedRowTest, WhatIsWrongIsSaidWithItsPlace) {
  const PublishedRow row = rows("seq,value\n32Q,x;2\n")[0];
  EXPECT_THAT(refusal([&] { row.integer("seq"); }),
              HasSubstr(".csv:2: seq is '32Q'; it must be a whole number"));
  EXPECT_THAT(refusal([&] { row.number("value"); }), HasSubstr("it must be a number"));
  EXPECT_THAT(refusal([&] { row.number("value", 2); }), HasSubstr("it must be 3 numbers"));
  EXPECT_THAT(refusal([&] { rows("value\ninf\n")[0].number("value"); }), HasSubstr("a number"));
  EXPECT_THAT(refusal([&] { row["gpus"]; }), HasSubstr("there is no column 'gpus'"));
  EXPECT_THAT(refusal([&] { rows("a,b\n1\n"); }), HasSubstr("line 2: 1 fields"));
  EXPECT_THAT(refusal([&] { rows(""); }), HasSubstr("no rows"));
}

TEST_F(PublishedRowTest, FiguresThatErrorsAreRelativeToAreAboveZero) {
  const std::vector<PublishedRow> bad = rows("value\n0\n-2\nnan\n");
  EXPECT_THAT(refusal([&] { bad[0].figure("value"); }),
              HasSubstr(".csv:2: value is '0'; a published figure must be above 0"));
  EXPECT_NE(refusal([&] { bad[1].figure("value"); }), "");
  EXPECT_NE(refusal([&] { bad[2].figure("value"); }), "");
  EXPECT_EQ(rows("value\n1;2\n")[0].figure("value", 1), 2);
}

TEST_F(PublishedRowTest, DegreesAreWholeNumbersAboveZero) {
  const auto with = [&](const std::string& config) { return rows("config\n" + config + '\n')[0]; };
  EXPECT_EQ(with("tp=4 ulysses=2").degree("ulysses="), 2);
  EXPECT_EQ(with("tp=4 ulysses=2").degree("ring="), 1) << "it is not said";
  for (const char* config : {"tp=0", "tp=-1", "tp=2.5", "tp=many", "tp=1e9", "tp=nan"}) {
    EXPECT_THAT(refusal([&] { with(config).degree("tp="); }),
                HasSubstr(concat("config is '", config, "'; behind 'tp=' must be a whole number")));
  }
}

constexpr const char* kTraining =
    "system,figure_id,hardware,gpus,model,heads,kv_heads,head_dim,layers,seq,batch,mask,config,"
    "metric,value\n";

TEST_F(PublishedRowTest, LengthsInMillionsAreNumbers) {
  const auto alst = rows(concat(kTraining, "ALST,T1,H100,8,,,,,,?M,1,,x,iter h:mm:ss,1;500\n"));
  EXPECT_THAT(refusal([&] { read_alst(alst); }),
              HasSubstr(".csv:2: seq is '?M'; it must be such as 160K or 2.4M"));
}

TEST_F(PublishedRowTest, ARowThatAnEarlierTableHasIsLeftOut) {
  const std::string row = "H100,8,,,,,,3.7M,1,,all,iter h:mm:ss,1;500\n";
  const Table table = read_alst(rows(concat(kTraining, "ALST,T1,", row, "ALST,T3,", row)));
  EXPECT_EQ(table.figures.size(), 1u);
  ASSERT_EQ(table.omissions.size(), 1u);
  EXPECT_EQ(table.omissions[0].reason, "it repeats a row of an earlier table");
}

TEST_F(PublishedRowTest, EachTableOfUspsTrainingIsAMetricOfItsOwn) {
  const auto usp = rows(
      concat(kTraining, "USP,T6,A800,16,LLaMA3-8B,,,,,64K,1,,tp=8 ring=2,TFLOPS_per_GPU,100\n"));
  const Table table = read_usp_training(usp);
  ASSERT_EQ(table.figures.size(), 1u);
  EXPECT_EQ(table.figures[0].metric, "MFU, T6");
  EXPECT_EQ(table.figures[0].mark, Mark::fit) << "A800 slow down as much as A100 were seen to";
}

}  // namespace
}  // namespace ringspan::bench
