// SPDX-License-Identifier: Apache-2.0
// `ringspan sweep --transport simulated` as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace simulated_cli_test {

using testing::HasSubstr;
using Words = std::vector<std::string>;

class SimulatedCliTest : public CommandTest {
 protected:
  /// Rows of a sweep in virtual time.
  std::vector<Cells> simulated(const Words& more, const std::string& cluster = "h800",
                               const std::string& file = "a.csv") {
    Words words{"sweep", "--cluster", cluster, "--csv", path(file)};
    words.insert(words.end(), more.begin(), more.end());
    if (std::find(more.begin(), more.end(), "--transport") == more.end()) {
      words.insert(words.end(), {"--transport", "simulated"});
    }
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_csv(path(file));
  }

  static std::string cell(const Cells& row, const char* name) { return row[column(name)]; }
  static double number(const Cells& row, const char* name) { return std::stod(cell(row, name)); }
};

TEST_F(SimulatedCliTest, RowsSayWhichWorldTheyAreOf) {
  const std::vector<Cells> rows = simulated({"--model", "llama3-8b", "--seq", "64Ki", "--ranks",
                                             "1,16", "--schedule", "zigzag", "--pass", "both"});
  ASSERT_EQ(rows.size(), 2u);
  const Cells& row = rows[1];
  EXPECT_EQ(cell(row, "status"), "ok");
  EXPECT_EQ(cell(row, "world"), "simulated");
  EXPECT_EQ(cell(row, "device"), "simulated");
  EXPECT_EQ(cell(row, "machine"), "simulated") << "it matters to no figure";
  EXPECT_EQ(cell(row, "cluster"), "h800");
  EXPECT_EQ(cell(row, "kernel"), "modelled");
  EXPECT_EQ(cell(row, "dtype"), "bf16");
  EXPECT_EQ(cell(row, "ranks_per_node"), "8");
  EXPECT_EQ(cell(row, "repeats"), "1");
  EXPECT_EQ(cell(row, "max_abs_error"), "");
  EXPECT_GT(number(row, "strong_efficiency"), 0.2);
  EXPECT_LT(number(row, "strong_efficiency"), 1);
  EXPECT_GT(number(row, "compute_slowdown"), 1) << "messages take multiprocessors";
  EXPECT_LT(number(row, "compute_slowdown"), 1.4 + 1e-9);
  EXPECT_GT(number(row, "hidden"), 0) << "exact, although measured once";
  EXPECT_GT(number(row, "hideable"), 0);
  EXPECT_LE(number(row, "hideable"), 1);
}

// Of two ranks without a mask: a step of M waits for one message, of which nothing can be hidden in
// the last step, that has none, and all in the others, where the kernel takes longer.
TEST_F(SimulatedCliTest, WhatCouldBeHiddenIsWhatKernelsAreLongEnoughFor) {
  const Words point{"--model", "llama2-7b", "--ranks", "2",          "--mask",
                    "full",    "--seq",     "64Ki",    "--schedule", "ring"};
  const Cells row = simulated(point).at(0);
  // M: K and V are copied, sent and waited for; the rest of it cannot be hidden.
  EXPECT_GT(number(row, "hideable"), 0.6);
  EXPECT_LT(number(row, "hideable"), 1);
  EXPECT_GE(number(row, "hideable"), number(row, "hidden"));
  Words short_sequence = point;
  short_sequence[7] = "2Ki";
  EXPECT_LT(number(simulated(short_sequence, "h800", "b.csv").at(0), "hideable"), 0.5)
      << "kernels are too short";
}

TEST_F(SimulatedCliTest, AutomaticAllToAllsGoByTheClusterAndSayHow) {
  const auto row = [&](const std::string& algorithm, const std::string& file) {
    return simulated({"--heads", "32", "--head-dim", "64", "--seq", "1Ki", "--ranks", "32",
                      "--schedule", "ulysses", "--all-to-all", algorithm},
                     "a100", file)
        .at(0);
  };
  const Cells automatic = row("automatic", "a.csv"), hierarchical = row("hierarchical", "h.csv");
  EXPECT_EQ(cell(automatic, "status"), "ok");
  EXPECT_EQ(cell(automatic, "messages_sent_per_rank"),
            cell(hierarchical, "messages_sent_per_rank"));
  EXPECT_LT(number(automatic, "median_s"), number(row("direct", "d.csv"), "median_s"));
  EXPECT_THAT(text("err"), HasSubstr("rows of the world 'simulated'"));
  row("automatic", "b.csv");
  EXPECT_THAT(text("err"),
              HasSubstr("--all-to-all automatic: simulated, 32 ranks on 4 nodes of 8"));
}

// NCCL gives a group of 32 more channels than one of 64, so that longer messages are short ones.
TEST_F(SimulatedCliTest, AutomaticAllToAllsOfUspGoByTheirGroupsAndSaySo) {
  const auto note = [&](const std::string& ranks, const std::string& file) {
    simulated({"--heads", "32", "--head-dim", "64", "--seq", "2Ki", "--ranks", ranks, "--schedule",
               "usp", "--ulysses-degree", "32", "--all-to-all", "automatic"},
              "h800", file);
    const std::string said = text("err");
    const std::size_t begin = said.find("--all-to-all automatic: ");
    return begin == said.npos ? "" : said.substr(begin, said.find('\n', begin) - begin);
  };
  const std::string alone = note("32", "32.csv");
  EXPECT_THAT(alone, HasSubstr("simulated, 32 ranks on 4 nodes of 8"));
  const auto costs = [](const std::string& said) { return said.substr(said.find("32 ranks on")); };
  const std::string two = note("64", "64.csv");
  EXPECT_THAT(two, HasSubstr("simulated, 2 groups of 32 ranks on 4 nodes of 8"));
  EXPECT_EQ(costs(two), costs(alone));
}

TEST_F(SimulatedCliTest, RunsAgainWithTheSameBits) {
  const Words sweep{"--heads", "8", "--seq", "8Ki", "--ranks", "12", "--pass", "both"};
  const std::vector<Cells> first = simulated(sweep), again = simulated(sweep, "h800", "b.csv");
  ASSERT_EQ(first.size(), 6u);
  EXPECT_EQ(first, again);
}

TEST_F(SimulatedCliTest, NoiseIsThatOfTheSeed) {
  write("noisy.toml", "like = \"h800\"\nkernel_noise = 0.1\nmessage_noise = 0.1\n");
  const auto median = [&](const std::string& seed, const std::string& file) {
    return cell(simulated({"--heads", "8", "--seq", "64Ki", "--ranks", "4", "--schedule", "zigzag",
                           "--seed", seed},
                          path("noisy.toml"), file)
                    .at(0),
                "median_s");
  };
  const std::string first = median("1", "a.csv");
  EXPECT_EQ(first, median("1", "b.csv"));
  EXPECT_NE(first, median("2", "c.csv"));
}

// What a schedule sends, and needs, does not depend on the world that it runs in.
TEST_F(SimulatedCliTest, TrafficAndMemoryAreThoseOfThreads) {
  Words sweep{"--transport",      "threads,simulated",
              "--kernel",         "null",
              "--dtype",          "bf16",
              "--ranks",          "6",
              "--ranks-per-node", "2",
              "--ulysses-degree", "2",
              "--heads",          "12"};
  sweep.insert(sweep.end(), {"--kv-heads", "1,4,12", "--head-dim", "16", "--seq", "250", "--pass",
                             "both", "--warmup", "0", "--repeats", "1", "--mask",
                             "full,window:40,documents:100,60,90+causal"});
  const std::vector<Cells> rows = simulated(sweep);
  std::map<std::string, Words> figures;  // by point
  int pairs = 0;
  for (const Cells& row : rows) {
    std::string point;
    for (const char* axis : {"schedule", "pass", "ranks", "kv_heads", "mask"}) {
      point += cell(row, axis) + ' ';
    }
    Words own;
    for (const char* name : {"bytes_sent_per_rank", "inter_node_bytes_per_rank",
                             "messages_sent_per_rank", "peak_bytes_per_rank", "status"}) {
      own.push_back(cell(row, name));
    }
    const auto [other, first] = figures.emplace(point, own);
    if (first) continue;
    EXPECT_EQ(own, other->second) << point;
    ++pairs;
  }
  EXPECT_EQ(pairs, 6 * 3 * 3);
}

TEST_F(SimulatedCliTest, WhatDoesNotFitIntoAGpuSaysSo) {
  const std::vector<Cells> rows =
      simulated({"--model", "llama2-7b", "--seq", "4Mi", "--ranks", "2", "--schedule", "ring"});
  EXPECT_THAT(cell(rows.at(0), "status"), HasSubstr("does not fit: "));
  EXPECT_THAT(cell(rows.at(0), "status"), HasSubstr("; a GPU has 80"));
  EXPECT_NE(cell(rows.at(0), "median_s"), "");
}

// Of 60 points, which take a second together.
TEST_F(SimulatedCliTest, AClusterFileIsReadOnce) {
  write("mine.toml", "like = \"h800\"\n");
  const pid_t child = start({"sweep", "--transport", "simulated", "--cluster", path("mine.toml"),
                             "--seq", "1Ki:10Ki:+1Ki", "--ranks", "2", "--csv", path("a.csv")});
  for (int i = 0; i < 2000 && text("a.csv").empty(); ++i) usleep(5000);
  std::filesystem::remove(path("mine.toml"));
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Cells> rows = read_csv(path("a.csv"));
  EXPECT_EQ(rows.size(), 60u);
  for (const Cells& row : rows) EXPECT_EQ(cell(row, "status"), "ok");
}

TEST_F(SimulatedCliTest, ClustersThatCannotHoldTheRanksAreRefused) {
  write("small.toml", "like = \"h800\"\nnodes = 2\n");
  const std::vector<Cells> rows =
      simulated({"--seq", "1Ki", "--schedule", "ring", "--ranks", "16,17"}, path("small.toml"));
  EXPECT_EQ(cell(rows.at(0), "status"), "ok");
  EXPECT_THAT(cell(rows.at(1), "status"), HasSubstr("17 ranks, but it holds 2 nodes of 8"));
}

TEST_F(SimulatedCliTest, AProgramThatWasMovedAloneSaysWhatItLacks) {
  std::filesystem::copy_file(RINGSPAN_COMMAND, path("alone"));
  launcher_ = {"/bin/sh", "-c", "exec \"$0\" sweep --transport simulated --cluster h800",
               path("alone")};
  expect_refused({},
                 "--cluster: unknown cluster 'h800'; those that come with the program are not in ");
}

TEST_F(SimulatedCliTest, BadInputIsRefusedInOneLine) {
  const auto refused = [&](const Words& words, const std::string& reason) {
    Words all{"sweep"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all, reason);
  };
  refused({"--transport", "simulated"}, "--cluster: simulated ranks need one; known are a100, ");
  refused({"--cluster", "h800"}, "--cluster: belongs to --transport simulated");
  refused({"--transport", "simulated", "--cluster", "h801"}, "--cluster: unknown cluster 'h801'");
  refused({"--transport", "simulated", "--cluster", "h800", "--check"},
          "--check: simulated ranks have no data");
  for (const char* device : {"cuda", "host"})
    refused({"--transport", "simulated", "--cluster", "h800", "--device", device},
            "--device: simulated ranks have the GPUs of --cluster; leave it out");
  refused({"--transport", "simulated", "--cluster", "h800", "--kernel", "cpu"},
          "kernel cpu works on data, and simulated ranks have none");
  refused({"--transport", "simulated", "--cluster", "h800", "--hop", "reference"},
          "simulated ranks share no memory");
  refused({"--transport", "simulated", "--cluster", "h800", "--kernel", "modelled:fa4"},
          "no speed of fa4 is known on h800; known there are fa2, fa3, cudnn");
  refused({"--transport", "simulated", "--cluster", "h800", "--dtype", "fp32"},
          "no speed of fa3 is known in fp32; it is in bf16 and fp16");
  refused({"--kernel", "modelled"},
          "modelled kernels run on the simulated device, and not on host");
  write("bad.toml", "like = \"h800\"\n[gpu]\nmultiprocessors = 0\n");
  refused({"--transport", "simulated", "--cluster", path("bad.toml")},
          "bad.toml, line 3: gpu.multiprocessors is 0");
}

TEST_F(SimulatedCliTest, APointThatTakesTooLongIsARow) {
  const std::vector<Cells> rows = simulated(
      {"--seq", "1Mi", "--ranks", "1024", "--schedule", "ring", "--point-timeout", "0.2"});
  EXPECT_THAT(cell(rows.at(0), "status"), HasSubstr("--point-timeout 0.2 s"));
}

/// busbw_bytes_per_s of the only row of `primitives`.
double bus_bandwidth(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> cells;
  std::istringstream line(outcome.out.substr(outcome.out.find('\n') + 1));
  for (std::string text; std::getline(line, text, ',');) cells.push_back(text);
  EXPECT_EQ(cells.size(), 20u) << outcome.out;
  if (cells.size() != 20) return 0;
  EXPECT_EQ(cells[0], "h800");
  EXPECT_EQ(cells[2], "simulated");
  EXPECT_EQ(cells[18], "") << "there is no data that could be wrong";
  EXPECT_EQ(cells[19], "ok\n");
  return std::stod(cells[17]);
}

// A GPU of h800 has links of 160 GB/s to its node, and 48.5 GB/s to others.
TEST_F(SimulatedCliTest, PrimitivesReachTheSpeedOfTheirLinksAndNoMore) {
  const auto bandwidth = [&](const char* primitive, const char* ranks) {
    return bus_bandwidth(run({"primitives", "--cluster", "h800", "--primitive", primitive,
                              "--ranks", ranks, "--bytes", "1Gi", "--format", "csv"}));
  };
  EXPECT_NEAR(bandwidth("ring_exchange", "8"), 160e9, 0.02 * 160e9);
  // Parts of 128 MiB have 8 channels of 14 GB/s each; what reduces adds between two of them.
  EXPECT_NEAR(bandwidth("all_gather", "8"), 112e9, 0.02 * 112e9);
  for (const char* primitive : {"reduce_scatter", "all_reduce"}) {
    EXPECT_LE(bandwidth(primitive, "8"), 112e9) << primitive;
    EXPECT_GT(bandwidth(primitive, "8"), 0.85 * 112e9) << primitive;
  }
  EXPECT_NEAR(bandwidth("ring_exchange", "16"), 48.5e9, 0.02 * 48.5e9);
  EXPECT_LT(bandwidth("all_to_all_direct", "16"), 2 * 48.5e9) << "half of it stays in the node";
}

TEST_F(SimulatedCliTest, PrimitivesInVirtualTimeNeedAClusterThatHoldsThemAndNoOtherTransport) {
  expect_refused({"primitives", "--transport", "simulated"},
                 "--cluster: simulated ranks need one; known are ");
  expect_refused({"primitives", "--transport", "threads", "--cluster", "h800"},
                 "--cluster: belongs to --transport simulated, which is not asked for");
  expect_refused({"primitives", "--transport", "threads,simulated", "--cluster", "h800"},
                 "--transport: simulated takes no other transport beside it");
  expect_refused({"primitives", "--cluster", "tpu"}, "tpu");
  expect_refused({"primitives", "--cluster", "h800", "--ranks", "2048"},
                 "2048 ranks, but it holds 128 nodes of 8");
  expect_refused({"primitives", "--cluster", "h800", "--bytes", "16Gi", "--primitive", "broadcast"},
                 "GiB of buffers for 1 rank; its GPU has 74");
}

}  // namespace simulated_cli_test
}  // namespace ringspan::bench
