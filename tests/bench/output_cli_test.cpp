// SPDX-License-Identifier: Apache-2.0
// What the command does if its standard output takes no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/rows/csv_reader.hpp"
#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace output_cli_test {

using testing::HasSubstr;
using Words = std::vector<std::string>;

class OutputCliTest : public CommandTest {
 protected:
  Words sweep(const std::string& more) const {
    Words words{"sweep", "--repeats", "1",  "--warmup", "0", "--heads",    "1",   "--head-dim",
                "8",     "--seq",     more, "--ranks",  "1", "--schedule", "ring"};
    return words;
  }
};

TEST_F(OutputCliTest, AFullDiskBehindItIsAFailure) {
  launcher_ = {"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full"};
  const std::vector<Words> commands{
      {"--help"},
      {"info"},
      {"memory", "--model", "llama3-8b", "--seq", "8Ki"},
      {"primitives", "--primitive", "barrier", "--repeats", "1"},
      {"probe", "--seconds", "0.1"},
      {"train", "--steps", "1", "--layers", "1", "--seq", "16", "--batch", "1"},
      sweep("8")};
  for (const Words& words : commands) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 1) << words[0] << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ringspan: ")) << words[0];
  }
}

// More of them than any buffer holds.
TEST_F(OutputCliTest, RowsInAFileOutliveIt) {
  launcher_ = {"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full"};
  Words words = sweep("8:800:+8");
  words.insert(words.end(), {"--csv", path("a.csv")});
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_csv(path("a.csv")).size(), 100u);
}

TEST_F(OutputCliTest, WhoeverReadsNoMoreHasReadEnough) {
  launcher_ = {"/bin/sh", "-c", "{ sleep 0.3; \"$0\" \"$@\"; echo $? >&2; } | :"};
  EXPECT_EQ(run({"--help"}).err, "0\n");
}

}  // namespace output_cli_test
}  // namespace ringspan::bench
