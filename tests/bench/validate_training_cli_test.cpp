// SPDX-License-Identifier: Apache-2.0
// How near published training steps are predicted: bounds on what results/training.md says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/rows/csv_lines.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace validate_training_cli_test {

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const std::string& csv) {
  const auto lines = read_csv_lines(csv).lines;
  std::vector<Row> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    Row& row = rows.emplace_back();
    for (std::size_t j = 0; j < lines[i].size(); ++j) row[lines[0][j]] = lines[i][j];
  }
  return rows;
}

class ValidateTrainingCliTest : public CommandTest {
 protected:
  std::vector<Row> validated(const std::string& table) {
    const Outcome outcome = run(
        {"validate", "--published", RINGSPAN_PUBLISHED, "--table", table, "--csv", path(table)});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return rows_of(path(table));
  }
};

TEST_F(ValidateTrainingCliTest, MegatronsLayersTakeAsLongAsPublished) {
  int layers = 0;
  double errors = 0, naive_errors = 0;
  for (Row& row : validated("megatron-times")) {
    const double error = std::abs(std::stod(row["error"]));
    const bool layer = row["figure"] == "T4";
    EXPECT_LT(error, layer ? 0.02 : 0.10) << row["row"];
    errors += error;
    naive_errors += std::abs(std::stod(row["naive"]) / std::stod(row["published"]) - 1);
    layers += layer;
  }
  EXPECT_EQ(layers, 15);
  EXPECT_LT(errors, naive_errors / 5);
}

TEST_F(ValidateTrainingCliTest, RecomputingCostsWhatMegatronPublished) {
  int overheads = 0;
  for (Row& row : validated("megatron-shares")) {
    if (row["reason"] != "") continue;
    const bool overhead = row["metric"] == "overhead";
    EXPECT_LT(std::abs(std::stod(row["error"])), overhead ? 0.02 : 0.06) << row["row"];
    overheads += overhead;
  }
  EXPECT_EQ(overheads, 4);
}

TEST_F(ValidateTrainingCliTest, NoRingIsInTheBestMixOfOneNode) {
  std::string lines;
  std::map<std::string, std::pair<double, std::string>> best;  // by length: MFU and mix
  const std::string usp = std::string(RINGSPAN_PUBLISHED) + "/usp.csv";
  std::ifstream file(usp);
  for (std::string line; std::getline(file, line);) {
    if (lines.empty() || line.find("USP,T5,") == 0) lines += line + '\n';
  }
  write("usp.csv", lines);
  const std::vector<Row> mixes = rows_of(path("usp.csv"));
  const Outcome outcome =
      run({"validate", "--published", path("usp.csv"), "--csv", path("out.csv")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Row> predicted = rows_of(path("out.csv"));
  ASSERT_EQ(predicted.size(), mixes.size());
  for (std::size_t i = 0; i < mixes.size(); ++i) {
    EXPECT_LT(std::abs(std::stod(predicted[i].at("error"))), 0.05) << mixes[i].at("config");
    auto& [mfu, mix] = best[mixes[i].at("seq")];
    if (const double now = std::stod(predicted[i].at("simulated")); now > mfu) {
      mfu = now;
      mix = mixes[i].at("config");
    }
  }
  EXPECT_THAT(best["64K"].second, testing::StartsWith("tp=4 ulysses=2 ring=1"));
  EXPECT_THAT(best["30K"].second, testing::StartsWith("tp=1 ulysses=8 ring=1"));
}

}  // namespace validate_training_cli_test
}  // namespace ringspan::bench
