// SPDX-License-Identifier: Apache-2.0
// `ringspan validate` as its users meet it, on small tables of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "bench/rows/csv_lines.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace validate_cli_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHeader =
    "system,figure_id,hardware,gpus,model,heads,kv_heads,head_dim,layers,seq,batch,mask,config,"
    "metric,value,source,provenance\n";

std::string line(const std::string& config, const std::string& metric, const std::string& value,
                 const std::string& hardware = "A100") {
  return concat("Mine,F1,", hardware, ",4,op,8,8,64,,8K,1,causal,", config, ',', metric, ',', value,
                ",,\n");
}

class ValidateCliTest : public CommandTest {
 protected:
  /// What `validate` writes about these lines, by the row that it is about.
  std::map<std::string, std::map<std::string, std::string>> validated(const std::string& lines,
                                                                      const std::string& csv) {
    write("mine.csv", kHeader + lines);
    outcome_ = run({"validate", "--published", path("mine.csv"), "--csv", path(csv)});
    EXPECT_EQ(outcome_.status, 0) << outcome_.err;
    const auto file = read_csv_lines(path(csv)).lines;
    std::map<std::string, std::map<std::string, std::string>> rows;
    for (std::size_t i = 1; i < file.size(); ++i) {
      for (std::size_t j = 0; j < file[i].size(); ++j) rows[file[i][2]][file[0][j]] = file[i][j];
    }
    return rows;
  }

  Outcome outcome_;
};

TEST_F(ValidateCliTest, AnchorsAreMetAndTheRestIsPredicted) {
  auto rows = validated(line("ulysses=4 ring=1", "iter/s zigzag fwd", "1500") +
                            line("ulysses=2 ring=2", "iter/s zigzag fwd", "1400") +
                            line("ulysses=1 ring=4", "iter/s basic fwd", "900"),
                        "a.csv");
  ASSERT_EQ(rows.size(), 3u);
  auto& anchor = rows["mine.csv:2"];
  EXPECT_EQ(anchor["mark"], "calibration");
  EXPECT_NEAR(std::stod(anchor["simulated"]), 1 / 1500.0, 1e-6 / 1500);
  EXPECT_NEAR(std::stod(anchor["naive"]), 1 / 1500.0, 1e-6 / 1500);
  auto& ring = rows["mine.csv:4"];
  EXPECT_EQ(ring["mark"], "prediction");
  EXPECT_EQ(ring["system"], "Mine");
  EXPECT_EQ(ring["table"], "operators");
  const double simulated = std::stod(ring["simulated"]);
  EXPECT_NEAR(std::stod(ring["error"]), simulated / 900 - 1, 1e-4);
  EXPECT_NEAR(std::stod(ring["naive_error"]), std::stod(ring["naive"]) / 900 - 1, 1e-4);
  EXPECT_LT(simulated, std::stod(rows["mine.csv:3"]["simulated"])) << "the mask leaves it uneven";
  EXPECT_NE(ring["simulated"], ring["naive"]);
  EXPECT_THAT(outcome_.out, HasSubstr("calibration: attention, "));
  EXPECT_THAT(outcome_.out, HasSubstr("mine.csv:2"));
}

// Both GPUs are at the speed of their own anchor.
TEST_F(ValidateCliTest, AnchorsOfAnotherGpuMaskOrLibraryDoNotCount) {
  const auto predicted = [this](const std::string& more, const std::string& csv) {
    auto rows = validated(line("ulysses=4 ring=1", "iter/s zigzag fwd", "1500") +
                              line("ulysses=2 ring=2", "iter/s zigzag fwd", "1400") + more,
                          csv);
    EXPECT_EQ(rows["mine.csv:4"]["mark"], more.empty() ? "" : "calibration");
    return rows["mine.csv:3"]["simulated"];
  };
  const std::string alone = predicted("", "a.csv");
  const auto anchor = [](const std::string& config, const std::string& hardware) {
    return line("ulysses=4 ring=1" + config, "iter/s zigzag fwd", "700", hardware);
  };
  EXPECT_EQ(predicted(anchor("", "H100"), "b.csv"), alone);
  EXPECT_THAT(outcome_.out, HasSubstr("causal, modelled:fa2 on h100"));
  EXPECT_EQ(predicted(concat("Mine,F1,A100,4,op,8,8,64,,8K,1,full,ulysses=4 ring=1,",
                             "iter/s zigzag fwd,700,,\n"),
                      "c.csv"),
            alone);
  EXPECT_EQ(predicted(line("ulysses=4 ring=1", "iter/s zigzag fwd", "1500", "H100") +
                          anchor(" fa3", "H100"),
                      "d.csv"),
            alone);
}

// From node to node this ring changes rails.
TEST_F(ValidateCliTest, AClustersOwnSpeedsCount) {
  const auto on = [this](const std::string& speed, const std::string& oversubscription) {
    write("own.toml", concat("like = 'a100'\ngpus_per_node = 2\n[fabric]\ngpus_per_switch = 2\n",
                             "numa_domains = 1\n[network]\nadapters_per_node = 2\n",
                             "oversubscription = ", oversubscription, "\n[gpu]\n",
                             "attention_speed = ", speed, "\n"));
    const std::string csv = concat(speed, '_', oversubscription, ".csv");
    auto row = validated(
        line("ulysses=1 ring=4", "iter/s basic fwd", "900", "cluster:" + path("own.toml")),
        csv)["mine.csv:2"];
    return std::pair(std::stod(row["simulated"]), std::stod(row["naive"]));
  };
  const auto usual = on("1.0", "1.0"), slow = on("0.25", "1.0"), narrow = on("1.0", "64.0");
  EXPECT_LT(1.5 * slow.first, usual.first) << "iterations per second";
  EXPECT_LT(1.5 * slow.second, usual.second);
  EXPECT_EQ(narrow.second, usual.second) << "naive networks have no switches";
}

TEST_F(ValidateCliTest, TheSameBitsComeAgain) {
  const std::string lines = line("ulysses=4 ring=1", "iter/s zigzag fwd", "1500") +
                            line("ulysses=1 ring=4", "iter/s basic fwd", "900");
  validated(lines, "a.csv");
  const std::string first = outcome_.out;
  validated(lines, "b.csv");
  EXPECT_EQ(outcome_.out, first);
  EXPECT_EQ(text("a.csv"), text("b.csv"));
}

// Slower than its messages alone; unknown hardware; another kind of row.
TEST_F(ValidateCliTest, WhatCannotBePredictedIsListedWithItsReason) {
  auto rows = validated(
      line("ulysses=2 ring=2", "iter/s zigzag fwd", "1000") + line("tp=4", "tokens_per_s", "7"),
      "a.csv");
  EXPECT_EQ(rows["mine.csv:2"]["mark"], "prediction") << "at the speed of the published curve";
  EXPECT_EQ(rows["mine.csv:3"]["reason"], "no table here has it");
  EXPECT_EQ(rows["mine.csv:3"]["simulated"], "");
  EXPECT_THAT(outcome_.out, HasSubstr("left out, 1 figure: no table here has it"));

  rows = validated(line("ulysses=4 ring=1", "iter/s zigzag fwd", "1e9") +
                       line("ulysses=2 ring=2", "iter/s zigzag fwd", "1000"),
                   "b.csv");
  EXPECT_THAT(rows["mine.csv:2"]["reason"], HasSubstr("no speed of attention meets mine.csv:2"));
  EXPECT_EQ(rows["mine.csv:3"]["simulated"], "");
}

// 36 tensor-parallel ranks for 32 heads.
TEST_F(ValidateCliTest, WhatATrainingRunMayNotDoIsTheReasonToLeaveItOut) {
  const std::string row = "USP,T6,A800,36,LLaMA3-8B,32,8,128,,64K,1,causal,tp=36,TFLOPS_per_GPU,9";
  auto rows = validated(row + ",,\n", "a.csv");
  EXPECT_THAT(rows["mine.csv:2"]["reason"],
              HasSubstr("tensor-parallel degree 36: 32 heads are not a multiple of it"));
  EXPECT_THAT(outcome_.out, ContainsRegex("0\\.[0-9]+ times as fast as alone \\(naive model: 0"));
}

TEST_F(ValidateCliTest, AnInterruptBeforeTheFirstTableLeavesNoFile) {
  write("long.csv", kHeader + concat("Mine,F1,A100,1024,op,8,8,64,,1M,1,causal,ulysses=1 "
                                     "ring=1024,iter/s basic fwd,900,,\n"));
  const pid_t child = start({"validate", "--published", path("long.csv"), "--csv", path("a.csv")});
  for (int i = 0; i < 2000 && !std::filesystem::exists(path("a.csv")); ++i) usleep(5000);
  usleep(200'000);  // into the simulation
  kill(child, SIGINT);
  EXPECT_EQ(finish(child).status, 130);
  EXPECT_FALSE(std::filesystem::exists(path("a.csv")));
}

TEST_F(ValidateCliTest, BadInputGetsOneLine) {
  write("mine.csv", kHeader + line("tp=4", "tokens_per_s", "7"));
  const std::string mine = path("mine.csv");
  expect_refused({"validate", "--published", mine}, "no row belongs to a table");
  expect_refused({"validate", "--published", path("none.csv")}, "none.csv");
  expect_refused({"validate", "--table", "usp"}, "--table: unknown table 'usp'; known are ");
  write("bad.csv", kHeader + line("ulysses=1 ring=4", "iter/s basic fwd", "900", "Abacus"));
  expect_refused({"validate", "--published", path("bad.csv")},
                 "bad.csv:2: no cluster is known for 'Abacus'; known are A100 PCIe, A100, ");
  write("bad.csv", kHeader + line("ulysses=0 ring=4", "iter/s basic fwd", "900"));
  expect_refused({"validate", "--published", path("bad.csv")},
                 "behind 'ulysses=' must be a whole number from 1");
  write("bad.csv", concat(kHeader, "Mine,F1,A100,4294967300,op,8,8,64,,8K,1,causal,ulysses=2,",
                          "iter/s basic fwd,900,,\n"));
  expect_refused({"validate", "--published", path("bad.csv")},
                 "bad.csv:2: gpus is 4294967300; it must be from 1 to 1048576");
  write("bad.csv",
        "hardware,gpus,pass,batch,heads,kv_heads,head_dim,tokens_per_gpu,theoretic\n"
        "A100,0,forward,1,32,8,128,1024,9\n");
  expect_refused({"validate", "--published", path("bad.csv")}, "bad.csv:2: gpus is 0; it must be");
  write("bad.csv", kHeader + line("ulysses=1 ring=4", "iter/s basic fwd", "0"));
  expect_refused({"validate", "--published", path("bad.csv")}, "must be above 0");
  write("good.csv", kHeader + line("ulysses=1 ring=4", "iter/s basic fwd", "900"));
  expect_refused({"validate", "--published", path("good.csv"), "--csv", mine}, "exists");
}

}  // namespace validate_cli_test
}  // namespace ringspan::bench
