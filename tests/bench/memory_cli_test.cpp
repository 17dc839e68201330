// SPDX-License-Identifier: Apache-2.0
// `ringspan memory` as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/rows/csv_lines.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace memory_cli_test {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

using Row = std::map<std::string, std::string>;

class MemoryCliTest : public CommandTest {
 protected:
  std::vector<Row> rows(std::vector<std::string> arguments) {
    std::filesystem::remove(path("m.csv"));
    arguments.insert(arguments.begin(), "memory");
    arguments.insert(arguments.end(), {"--csv", path("m.csv")});
    outcome_ = run(arguments);
    EXPECT_EQ(outcome_.status, 0) << outcome_.err;
    const auto lines = read_csv_lines(path("m.csv")).lines;
    std::vector<Row> rows;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      for (std::size_t j = 0; j < lines[i].size(); ++j) {
        if (j == 0) rows.emplace_back();
        rows.back()[lines[0][j]] = lines[i][j];
      }
    }
    return rows;
  }

  /// Of the rows whose text has these words; there are `count` of them.
  std::vector<double> errors(const std::vector<Row>& rows, const std::string& words,
                             std::size_t count) {
    std::vector<double> errors;
    for (const Row& row : rows) {
      if (row.at("what").find(words) != std::string::npos) {
        errors.push_back(std::stod(row.at("error")));
        EXPECT_NEAR(errors.back(),
                    std::stod(row.at("computed")) / std::stod(row.at("published")) - 1, 1e-4);
      }
    }
    EXPECT_EQ(errors.size(), count) << words;
    return errors;
  }

  Outcome outcome_;
};

TEST_F(MemoryCliTest, BytesAreThosePublished) {
  const auto all = rows({"--table", "bytes"});
  EXPECT_THAT(errors(all, "", 6), testing::Each(AllOf(Ge(-0.002), Le(0.01))));
  EXPECT_THAT(outcome_.out, HasSubstr("checkpoints of Llama-3.1-8B, 125K tokens"));
  for (const Row& row : all) EXPECT_EQ(row.at("table"), "bytes");
}

TEST_F(MemoryCliTest, BlocksAndRingsLengthenSequencesAsPublished) {
  const auto all = rows({"--table", "blockwise,blockwise-contexts"});
  EXPECT_THAT(errors(all, "against memory-efficient", 1), testing::ElementsAre(0));
  EXPECT_THAT(errors(all, "against vanilla", 1), testing::Each(Ge(-0.11)));
  for (const char* gpus :
       {"8 x A100 NVLink, LLaMA-3B: on a ring", "8 x A100 NVLink, LLaMA-7B: on a ring",
        "8 x A100 NVLink, LLaMA-13B: on a ring", "32 x A100 InfiniBand, LLaMA-7B: on a ring",
        "32 x A100 InfiniBand, LLaMA-13B: on a ring"}) {
    EXPECT_THAT(errors(all, gpus, 1), testing::ElementsAre(0));
  }
}

TEST_F(MemoryCliTest, MegatronsSequenceParallelismWithSelectiveRecomputingTakesAFifth) {
  const auto all = rows({"--table", "megatron"});
  EXPECT_EQ(all.size(), 18);
  EXPECT_THAT(errors(all, "selective recompute, % that recomputing saves", 2),
              testing::Each(AllOf(Ge(-0.01), Le(0.01))));
  EXPECT_THAT(errors(all, "parallelism; selective recompute, % of", 4),
              testing::Each(AllOf(Ge(-0.2), Le(0.02))));
}

TEST_F(MemoryCliTest, RingSelfAttentionGrowsAsMeasured) {
  const auto all = rows({"--table", "rsa-growth,rsa-longest"});
  EXPECT_THAT(errors(all, "sequence parallel,", 6), testing::Each(AllOf(Ge(-0.05), Le(0))));
  EXPECT_THAT(errors(all, "tensor parallel,", 5), testing::Each(AllOf(Ge(-0.14), Le(0))));
  EXPECT_THAT(errors(all, "sequence on", 2), testing::Each(AllOf(Ge(0), Le(0.08))));
  EXPECT_THAT(errors(all, "batch on", 1), testing::Each(AllOf(Ge(-0.21), Le(0))));
}

TEST_F(MemoryCliTest, EveryTableHasRowsAmongThePublished) {
  std::map<std::string, int> counts;
  for (const Row& row : rows({})) ++counts[row.at("table")];
  const std::map<std::string, int> expected{
      {"rsa-growth", 11},         {"rsa-longest", 4}, {"megatron", 18},    {"blockwise", 2},
      {"blockwise-contexts", 26}, {"bytes", 6},       {"alst-longest", 23}};
  EXPECT_EQ(counts, expected);
}

// Llama 3 8B, 8,192 tokens; see LayerActivationsTest for what the formulas are held against.
TEST_F(MemoryCliTest, CountsAModelOnSeveralNumbersOfRanks) {
  const auto all = rows({"--model", "llama3-8b", "--seq", "8Ki", "--ranks", "1,8"});
  const double tokens = 8192, h = 4096, kv = 1024, ffn = 14336;
  const double layer = tokens * (2 * (4 * h + 2 * h + 2 * kv + 3 * ffn) + 4 * 32);
  std::map<std::string, double> bytes;
  for (const Row& row : all) {
    bytes[row.at("what") + " on " + row.at("ranks")] = std::stod(row.at("bytes_per_rank"));
  }
  EXPECT_NEAR(bytes["a layer keeps, with flash attention on 1"] / layer, 1, 1e-5);
  EXPECT_NEAR(bytes["a layer keeps, with flash attention on 8"] / (layer / 8), 1, 1e-5);
  EXPECT_NEAR(bytes["all layers, checkpoints on 8"] / (2 * tokens / 8 * h * 32), 1, 1e-5);
  EXPECT_NEAR(bytes["largest activation, on a ring of all ranks on 8"] / (6 * tokens / 8 * h), 1,
              1e-5);
  EXPECT_THAT(outcome_.out, HasSubstr("llama3-8b, batch 1 x 8192 tokens"));
}

TEST_F(MemoryCliTest, TensorParallelRanksCutHeadsAndNorms) {
  const auto all =
      rows({"--model", "gpt3-175b", "--seq", "2Ki", "--tensor", "8", "--ranks", "8,16"});
  int found = 0;
  for (const Row& row : all) {
    if (row.at("what") == "a layer keeps, with scores recomputed") {
      ++found;
      const double ranks = std::stod(row.at("ranks"));
      // 32/34 of Megatron's 34 sbh / t: no dropout.
      EXPECT_NEAR(std::stod(row.at("bytes_per_rank")) / (32 * 2048 * 12288.0 / ranks), 1, 1e-5);
    }
  }
  EXPECT_EQ(found, 2);
}

// To the byte, and what is at work besides falls with the ranks, too.
TEST_F(MemoryCliTest, MeasuresWhatTheFormulaOfABlockSays) {
  std::map<std::string, double> peaks;
  const auto all = rows({"--measured", "--seq", "128", "--ranks", "1,4"});
  EXPECT_EQ(all.size(), 14);
  for (const Row& row : all) {
    EXPECT_EQ(row.at("kept_per_layer"), row.at("formula")) << row.at("mode");
    peaks[row.at("mode") + row.at("ranks")] = std::stod(row.at("peak"));
  }
  for (const Row& row : all) {
    const std::string& mode = row.at("mode");
    EXPECT_THAT(peaks[mode + "1"] / peaks[mode + "4"], AllOf(Ge(2.5), Le(4))) << mode;
  }
}

TEST_F(MemoryCliTest, RefusesWithOneLine) {
  expect_refused({"memory", "--table", "none"},
                 "--table: unknown table 'none'; known are rsa-growth");
  expect_refused({"memory", "--model", "none"}, "unknown model 'none'; known are llama2-7b");
  expect_refused({"memory", "--model", "qwen3-235b"}, "a mixture of 128 experts");
  expect_refused({"memory", "--seq", "8Ki"}, "--seq: belongs to --measured or a --model");
  expect_refused({"memory", "--model", "llama3-8b", "--table", "bytes"}, "leave out --model");
  expect_refused({"memory", "--measured", "--model", "llama3-8b"}, "leave out --model");
  expect_refused({"memory", "--measured", "--tensor", "2"}, "--tensor: belongs to a --model");
  expect_refused({"memory", "--measured", "--ranks", "65"}, "--ranks: 65 is too large");
  expect_refused({"memory", "--model", "llama3-8b", "--tensor", "3"},
                 "3 does not divide the 32 heads");
  expect_refused({"memory", "--model", "llama3-8b", "--tensor", "4", "--ranks", "6"},
                 "--ranks: 6 is no multiple of the 4 of --tensor");
  expect_refused({"memory", "--model", "llama3-8b", "--seq", "1,2"}, "--seq: takes one value");
  expect_refused({"memory", "--published", path("none.csv")}, "none.csv");
  write("other.csv", "system,metric\nnobody,speed\n");
  expect_refused({"memory", "--published", path("other.csv")}, "no row is about memory");
  expect_refused({"memory", "--published", path("other.csv"), "--table", "alst-longest"},
                 "no row that is published is of alst-longest");
  write("none.csv",
        concat("system,figure_id,hardware,gpus,model,heads,kv_heads,head_dim,layers,seq,",
               "batch,mask,config,metric,value,source,provenance\n",
               "ALST,T3,H100,0,Llama-8B,,,,,3.7M,1,,all,max_seq_tokens,3.7M,,\n"));
  expect_refused({"memory", "--published", path("none.csv")},
                 "none.csv:2: gpus is 0; it must be from 1 to");
  expect_refused({"memory", "--table", "bytes", "--csv", path("other.csv")}, "exists");
}

}  // namespace memory_cli_test
}  // namespace ringspan::bench
