// SPDX-License-Identifier: Apache-2.0
// `ringspan trace` as its users meet it: a file that viewers of traces understand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/launch.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace trace_cli_test {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class TraceCliTest : public CommandTest {
 protected:
  static bool simulates() {
    const auto backends = comm::backends();
    return std::any_of(backends.begin(), backends.end(),
                       [](const auto& backend) { return backend.name == "simulated"; });
  }

  Json traced(const Words& more) {
    Words words{"trace", "-o", path("t.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("open it in ui.perfetto.dev"));
    return Json::parse(text("t.json"));
  }

  static std::vector<Json> spans(const Json& trace, const std::string& category = "") {
    std::vector<Json> result;
    for (const Json& event : trace.at("traceEvents"))
      if (event.at("ph") == "X" && (category.empty() || event.at("cat") == category))
        result.push_back(event);
    return result;
  }

  static std::set<std::string> names(const Json& trace, const std::string& category) {
    std::set<std::string> result;
    for (const Json& span : spans(trace, category)) result.insert(span.at("name"));
    return result;
  }

  /// Every rank has a name, every track too; on a track spans follow one another or are inside
  /// others; nothing is before the beginning.
  static void expect_well_formed(const Json& trace, int ranks) {
    std::set<int> named;
    std::set<std::pair<int, int>> tracks;
    for (const Json& event : trace.at("traceEvents")) {
      const int rank = event.at("pid");
      EXPECT_TRUE(rank >= 0 && rank < ranks);
      if (event.at("name") == "process_name") {
        named.insert(rank);
        EXPECT_THAT(event.at("args").at("name").get<std::string>(),
                    testing::AllOf(HasSubstr(concat("rank ", rank, " on node ")),
                                   HasSubstr(trace.at("otherData").at("world"))));
      }
      if (event.at("name") == "thread_name") tracks.emplace(rank, event.at("tid"));
    }
    EXPECT_EQ(std::ssize(named), ranks);

    std::map<std::pair<int, int>, std::vector<double>> open;  // ends of what is around, [track]
    for (const Json& span : spans(trace)) {                   // in the order in which they start
      const std::pair<int, int> track(span.at("pid"), span.at("tid"));
      EXPECT_EQ(tracks.count(track), 1u);
      constexpr double kRounding = 1e-3;  // a nanosecond
      const double start = span.at("ts"), end = start + span.at("dur").get<double>();
      EXPECT_GE(start, 0);
      EXPECT_GE(end, start);
      std::vector<double>& around = open[track];
      while (!around.empty() && around.back() <= start + kRounding) around.pop_back();
      const double most = around.empty() ? end : around.back();
      EXPECT_LE(end, most + kRounding) << span.dump();
      around.push_back(end);
    }
  }
};

TEST_F(TraceCliTest, ARingOfThreadsHasKernelsWaitsAndMessages) {
  const Json trace = traced({"--schedule", "zigzag", "--ranks", "3", "--seq", "384", "--heads", "2",
                             "--head-dim", "16", "--pass", "both"});
  expect_well_formed(trace, 3);
  EXPECT_EQ(trace.at("otherData").at("world"), "host");
  EXPECT_EQ(trace.at("otherData").at("schedule"), "zigzag");
  EXPECT_EQ(trace.at("otherData").at("ranks"), "3");
  EXPECT_EQ(names(trace, "attention"),
            (std::set<std::string>{"attention_forward", "attention_backward"}));
  EXPECT_EQ(names(trace, "message"), (std::set<std::string>{"ring_exchange", "kv_gradients"}));
  EXPECT_EQ(names(trace, "wait"),
            (std::set<std::string>{"wait for ring_exchange", "wait for kv_gradients"}));
  std::int64_t bytes = 0;
  const std::vector<Json> messages = spans(trace, "message");
  for (const Json& message : messages) {
    EXPECT_NE(message.at("args").at("to"), message.at("pid"));
    bytes += message.at("args").at("bytes").get<std::int64_t>();
  }
  // Forward 2 hops of K and V, backward 2 more, and 3 of gradients, of every rank's 128 tokens.
  EXPECT_EQ(messages.size(), 3u * (2 + 2 + 3));
  EXPECT_EQ(bytes, 3 * (2 + 2 + 3) * 2 * 128 * 2 * 16 * 4);
}

TEST_F(TraceCliTest, GpusTellWhenTheyRanWhatWasQueued) {
  launcher_ = {"/usr/bin/env", "LD_LIBRARY_PATH=" RINGSPAN_EMULATION};
  for (const char* transport : {"nccl", "cuda_ipc"}) {
    const Json trace =
        traced({"--transport", transport, "--schedule", "zigzag", "--ranks", "2", "--seq", "96",
                "--heads", "2", "--head-dim", "16", "--pass", "both"});
    expect_well_formed(trace, 2);
    EXPECT_EQ(trace.at("otherData").at("world"), "gpu");
    EXPECT_THAT(trace.at("otherData").at("machine"), HasSubstr("Emulated GPU"));
    EXPECT_EQ(names(trace, "attention"),
              (std::set<std::string>{"attention_forward", "attention_backward"}));
    EXPECT_EQ(names(trace, "wait"),
              (std::set<std::string>{"wait for ring_exchange", "wait for kv_gradients"}));
    std::int64_t bytes = 0;
    for (const Json& message : spans(trace, "message"))
      bytes += message.at("args").at("bytes").get<std::int64_t>();
    // A hop of K and V each way, bf16, and two of gradients, fp32, of every rank's 48 tokens.
    EXPECT_EQ(bytes, 2 * (2 * 2 + 2 * 4) * 2 * 48 * 2 * 16) << transport;
  }
}

TEST_F(TraceCliTest, ATransportOfGpusDoesNotMoveMemoryOfTheHost) {
  launcher_ = {"/usr/bin/env", "LD_LIBRARY_PATH=" RINGSPAN_EMULATION};
  const Outcome outcome = run({"trace", "-o", path("t.json"), "--transport", "nccl", "--device",
                               "host", "--ranks", "2", "--seq", "96"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--device host: transport 'nccl' moves memory of GPUs"));
  EXPECT_FALSE(std::filesystem::exists(path("t.json")));
}

TEST_F(TraceCliTest, WhatAHierarchicalAllToAllCopiesIsThere) {
  const Json trace =
      traced({"--schedule", "ulysses", "--ranks", "4", "--ranks-per-node", "2", "--seq", "64",
              "--heads", "4", "--head-dim", "8", "--all-to-all", "hierarchical"});
  expect_well_formed(trace, 4);
  EXPECT_EQ(names(trace, "message"), std::set<std::string>{"all_to_all"});
  EXPECT_EQ(names(trace, "pack"), std::set<std::string>{"copy"});
}

TEST_F(TraceCliTest, VirtualTimeHasTheSameTracksAndIsTheSameAgain) {
  if (!simulates()) GTEST_SKIP() << "this build has no simulated transport";
  const Words point{"--transport", "simulated", "--cluster", "h800",    "--schedule",
                    "usp",         "--ranks",   "16",        "--model", "llama3-8b",
                    "--seq",       "64Ki",      "--pass",    "both"};
  const Json trace = traced(point);
  expect_well_formed(trace, 16);
  EXPECT_EQ(trace.at("otherData").at("world"), "simulated");
  EXPECT_EQ(trace.at("otherData").at("machine"), "simulated");
  EXPECT_EQ(trace.at("otherData").at("cluster"), "h800");
  EXPECT_EQ(names(trace, "merge"), (std::set<std::string>{"merge", "accumulate"}));
  EXPECT_EQ(names(trace, "other"), (std::set<std::string>{"delta", "fill", "finalize"}));
  EXPECT_EQ(names(trace, "message"),
            (std::set<std::string>{"all_to_all", "ring_exchange", "kv_gradients"}));
  EXPECT_FALSE(spans(trace, "wait").empty());
  EXPECT_EQ(traced(point), trace);
}

TEST_F(TraceCliTest, HelpNamesTheOnePointThatIsTraced) {
  const std::string help = run({"trace", "--help"}).out;
  EXPECT_THAT(help, AllOf(HasSubstr("halo [zigzag]\n"), HasSubstr("number of ranks [2]\n"),
                          Not(HasSubstr("[these]")), Not(HasSubstr("[1,2]"))));
}

TEST_F(TraceCliTest, BadInputIsRefusedInOneLine) {
  const auto refused = [&](const Words& words, const std::string& reason) {
    Words all{"trace"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all, reason);
  };
  refused({"--ranks", "1,2"}, "--ranks: 2 values, but a trace is of one point; give one");
  refused({"--schedule", "ring,zigzag"}, "--schedule: 2 values, but a trace is of one point");
  refused({"--mask", "full,causal"}, "--mask: 2 values, but a trace is of one point");
  refused({"--model", "llama3-8b,llama2-7b"}, "--model: 2 values, but a trace is of one point");
  refused({"--csv", "a.csv"}, "unknown option '--csv'");
  refused({"--batch", "1Gi"}, " GiB on 2 ranks; the machine has ");
  refused({"-o", path("none") + "/t.json"}, "--output: cannot write ");
  refused({"--schedule", "ulysses", "--heads", "1", "-o", path("t.json")},
          "every rank needs a head");
}

TEST_F(TraceCliTest, WhatCannotBeWrittenWholeLeavesAnEarlierTraceAsItWas) {
  write("t.json", "earlier");
  const Outcome outcome =
      run_with_files_up_to(1024, {"trace", "-o", path("t.json"), "--seq", "64", "--heads", "2"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(concat("--output: cannot write ", path("t.json"))));
  EXPECT_EQ(text("t.json"), "earlier");
  EXPECT_EQ(files().size(), 3u) << "out, err and t.json";
}

TEST_F(TraceCliTest, NoOtherFileIsLostOrLeft) {
  write("t.json.tmp", "mine");
  EXPECT_EQ(run({"trace", "-o", path("t.json"), "--seq", "64", "--heads", "2"}).status, 0);
  EXPECT_EQ(text("t.json.tmp"), "mine");
  EXPECT_EQ(files().size(), 4u) << "out, err, t.json and t.json.tmp";
}

TEST_F(TraceCliTest, WhatIsNoRegularFileIsWrittenAsItIs) {
  const Outcome outcome = run({"trace", "-o", "/dev/stdout", "--seq", "64", "--heads", "2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("otherData").at("schedule"), "zigzag");
}

}  // namespace trace_cli_test
}  // namespace ringspan::bench
