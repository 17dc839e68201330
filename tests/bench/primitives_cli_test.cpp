// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/bench/command.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PrimitivesCliTest : public CommandTest {
 protected:
  Outcome primitives(std::vector<std::string> more) const {
    more.insert(more.begin(), {"primitives", "--repeats", "2", "--warmup", "0"});
    return run(more);
  }
};

TEST_F(PrimitivesCliTest, RefusesBadInputInOneLine) {
  expect_refused({"primitives", "--primitive", "all"}, "known are point_to_point, barrier, ring");
  expect_refused({"primitives", "--ranks", "1"}, "--ranks: 1 is too small; the least is 2");
  expect_refused({"primitives", "--ranks", "4097"}, "--ranks: 4097 is too large");
  expect_refused({"primitives", "--bytes", "3"}, "--bytes: 3 is too small; the least is 4");
  expect_refused({"primitives", "--bytes", "4Ki:1Ki:x2"}, "ends before it begins");
  expect_refused({"primitives", "--transport", "smoke"}, "known are threads");
  expect_refused({"primitives", "--transport", "threads,simulated"},
                 "--cluster: simulated ranks need one; known are ");
  expect_refused({"primitives", "--format", "osu"}, "known are table, csv, nccl");
  expect_refused({"primitives", "--format", "csv,nccl"}, "--format: takes one value");
  expect_refused({"primitives", "--hop", "lend"}, "known are copy, reference");
  expect_refused({"primitives", "--deadline", "0"}, "--deadline: 0 is too small");
  expect_refused({"primitives", "--seq", "4"}, "unknown option '--seq'; known are --primitive");
}

TEST_F(PrimitivesCliTest, WithoutAnythingToTimeItIsBadInput) {
  expect_refused({"primitives", "--primitive", "double_ring", "--ranks", "3", "--inner-ring", "2"},
                 "double_ring: inner rings of 2 ranks do not divide 3 ranks evenly");
  expect_refused({"primitives", "--primitive", "all_gather", "--bytes", "4", "--ranks", "2"},
                 "4 bytes are too few for 2 ranks; the least is 8");
  expect_refused({"primitives", "--primitive", "broadcast", "--bytes", "512Gi"},
                 "GiB of buffers for 2 ranks; a machine here has ");
}

TEST_F(PrimitivesCliTest, WritesARowPerPrimitiveAndSize) {
  const Outcome outcome = primitives({"--format", "csv", "--ranks", "2,3", "--bytes", "4Ki,16Ki",
                                      "--primitive", "ring_exchange,broadcast,barrier"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("machine,commit,world,transport,primitive,"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1 + 2 * (2 + 2 + 1));
}

TEST_F(PrimitivesCliTest, AFileOfCostsThatHoldsSomethingElseIsRefusedAtOnce) {
  write("costs.json", "mine");
  const Outcome outcome = primitives({"--bytes", "4Ki", "--costs", path("costs.json")});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("holds no list of costs"));
}

TEST_F(PrimitivesCliTest, ARefusedPrimitiveIsARowAmongOthers) {
  const Outcome outcome =
      primitives({"--format", "csv", "--ranks", "3", "--inner-ring", "2", "--bytes", "4Ki",
                  "--primitive", "ring_exchange,double_ring"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(",double_ring: inner rings of 2 ranks do not divide"));
  EXPECT_THAT(outcome.out, HasSubstr(",ok\n"));
}

TEST_F(PrimitivesCliTest, NcclTextHoldsOnePrimitiveAfterTheOther) {
  const Outcome outcome = primitives({"--format", "nccl", "--bytes", "4Ki,16Ki", "--primitive",
                                      "all_to_all_direct,all_to_all_automatic,all_reduce"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> blocks, lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# ringspan primitives: ")) blocks.push_back(line);
    if (!line.starts_with("#")) lines.push_back(line);
  }
  EXPECT_THAT(blocks,
              testing::ElementsAre(HasSubstr("all_to_all_direct"),
                                   HasSubstr("all_to_all_automatic"), HasSubstr("all_reduce")));
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines, testing::Each(testing::SizeIs(118)));
}

}  // namespace
}  // namespace ringspan::bench
