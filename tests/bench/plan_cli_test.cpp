// SPDX-License-Identifier: Apache-2.0
// `ringspan plan` as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bench/plan_command.hpp"

namespace ringspan::bench {
namespace plan_cli_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

using PlanCliTest = PlanCommandTest;

TEST_F(PlanCliTest, WhatDoesNotFitSaysByHowMuch) {
  const Json found = plan(
      {"--cluster", "h100", "--model", "llama3-70b", "--seq", "8Ki", "--memory-limit", "1Gi"}, 1);
  EXPECT_EQ(best(found).at("fits"), false);
  EXPECT_THAT(why_not(found, "ring alone"),
              AllOf(StartsWith("does not fit: "), HasSubstr("of 1.1 GB")));
  const Outcome outcome = run({"plan", "--cluster", "h100", "--model", "llama3-70b", "--seq", "8Ki",
                               "--memory-limit", "1Gi"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("nothing fits"));
}

TEST_F(PlanCliTest, ABatchThatCannotBeDividedSaysWhichCan) {
  const Json found = plan({"--cluster", "h100", "--heads", "8", "--head-dim", "64", "--layers", "2",
                           "--seq", "1Ki", "--global-batch", "7"});
  EXPECT_EQ(best(found).at("data"), 1);
  EXPECT_THAT(why_not(found, "data parallelism"),
              HasSubstr("a batch of 7 have no divisor in common but 1; the nearest batch that can "
                        "be divided is 6"));
}

// One head leaves few mixes, so that their bounds take a tenth of a ring's simulation. On a busy
// machine both take longer, and bounds may take all of a limit: it is doubled until they do not.
TEST_F(PlanCliTest, WhatWasNotSimulatedInTimeIsNoAnswer) {
  std::string limit;
  Outcome outcome;
  for (int seconds = 2; seconds <= 16 && outcome.out.empty(); seconds *= 2) {
    limit = std::to_string(seconds);
    outcome = run({"plan", "--cluster", "h800", "--heads", "1", "--head-dim", "128", "--layers",
                   "2", "--seq", "1Mi", "--ranks", "512", "--time-limit", limit});
  }
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("was not simulated: the plan took longer than --time-limit " +
                                     limit + " s"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing that was simulated fits"));
  EXPECT_THAT(outcome.out, HasSubstr("ring 512 (zigzag) may fit; it was not simulated"));
}

// A bound of each of them takes a good part of a second.
TEST_F(PlanCliTest, TimeThatDoesNotSufficeForBoundsSaysHowFarItWent) {
  const Outcome outcome = run({"plan", "--cluster", "h800", "--model", "llama3-8b", "--seq", "1Mi",
                               "--ranks", "1024", "--time-limit", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, testing::ContainsRegex("--time-limit: after 1 s only [0-9]+ of 40 mixes "
                                                  "have a lower bound, .*; give more seconds"));
}

TEST_F(PlanCliTest, SaysTheSameAgain) {
  const Words words{"plan", "--cluster",  "h800", "--seq",    "32Ki", "--heads",
                    "8",    "--head-dim", "64",   "--layers", "2"};
  const Outcome first = run(words), again = run(words);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, again.out);
  EXPECT_THAT(first.out, StartsWith("Predicted, nothing of this is measured: "));
}

TEST_F(PlanCliTest, BadInputIsRefusedInOneLine) {
  const auto refused = [&](const Words& words, const std::string& reason) {
    Words all{"plan"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all, reason);
  };
  const auto refused_with = [&](const Words& more, const std::string& reason) {
    Words words{"--model", "llama3-8b", "--cluster", "h800", "--seq", "8Ki"};
    words.insert(words.end(), more.begin(), more.end());
    refused(words, reason);
  };
  refused({},
          "--model: a plan needs one, or --heads, --head-dim and --layers; known are llama2-7b");
  refused({"--model", "llama4"}, "--model: unknown model 'llama4'; known are llama2-7b");
  refused({"--model", "llama3-8b"}, "--cluster: a plan needs one; known are a100, ");
  refused({"--model", "llama3-8b", "--cluster", "h801"}, "--cluster: unknown cluster 'h801'");
  refused({"--model", "llama3-8b", "--cluster", "h800"}, "--seq: a plan needs it");
  refused({"--heads", "8", "--cluster", "h800"}, "--head-dim: a plan needs it");
  refused({"--heads", "8", "--head-dim", "64", "--layers", "2", "--kv-heads", "3"},
          "--kv-heads: 3 do not divide 8 heads");
  const Words huge{"--heads", "16Mi", "--head-dim", "16Mi", "--layers", "2"};
  refused(huge, "--heads: times 16777216 of --head-dim, 16777216 are too many; the most is 1");
  refused({"--heads", "8", "--head-dim", "64", "--layers", "2", "--hidden", "16Mi"},
          "--ffn-hidden: 67108864, which it is unless given, is too large; the most is 16777216");
  refused({"--model", "llama3-8b", "--cluster", "h800", "--seq", "4Gi"},
          "--seq: 4294967296 is too large; the most is 2147483648");
  refused({"--model", "llama3-8b", "--cluster", "h800", "--seq", "1Gi", "--global-batch", "16Mi"},
          "--seq: 16777216 sequences of 1073741824 tokens, 128256 elements each, are too many");
  refused_with({"--time-limit", "0"}, "--time-limit: 0 is too small; the least is 1");
  refused_with({"--heads", "8"}, "--model: stands in place of --heads");
  refused_with({"--ranks", "2048"}, "--ranks: 2048 GPUs, but cluster 'h800' has 1024");
  refused_with({"--ranks", "8192"}, "--ranks: 8192 is too large; the most is 4096");
  refused_with({"--ranks", "12"}, "12 GPUs are no whole nodes of 8; take 8 or 16");
  refused_with({"--ranks", "8,16"}, "--ranks: takes one value");
  refused_with({"--global-batch", "0"}, "--global-batch: 0 is too small; the least is 1");
  refused_with({"--memory-limit", "80GB"}, "--memory-limit: '80GB' is not a whole number");
  refused_with({"--mask", "full"}, "unknown option '--mask'; known are --model");
  refused({"--model", "qwen3-235b", "--cluster", "h800", "--seq", "8Ki"},
          "qwen3-235b: a mixture of 128 experts; only dense models are modelled");
}

}  // namespace plan_cli_test
}  // namespace ringspan::bench
