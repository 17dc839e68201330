// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/call_deadline.hpp"
#include "bench/primitives/labels.hpp"
#include "bench/primitives/primitive.hpp"
#include "bench/primitives/rows.hpp"
#include "bench/primitives/timing.hpp"
#include "comm/collectives.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(CallDeadlineTest, ACallThatDoesNotReturnEndsTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(CallDeadline(0.1, "MPI_Alltoall")([] { sleep(20); }), testing::ExitedWithCode(1),
              "MPI_Alltoall has not returned within 0.1 s: a process is missing");
}

TEST(CallDeadlineTest, CallsThatReturnMayTakeLongTogetherAndMayThrow) {
  CallDeadline deadline(0.4, "sleep");
  for (int i = 0; i < 10; ++i) deadline([] { sleep(0.05); });
  EXPECT_THROW(deadline([] { throw Error(ErrorKind::system, "no"); }), Error);
  sleep(0.5);  // no call is under way, after one that threw either
}

/// The bytes a rank sends in one message-optimal all-reduce and its like, over S: what the factors
/// stand for.
TEST(BandwidthTest, FactorsAreThoseOfTheField) {
  EXPECT_DOUBLE_EQ(value(BusFactor::none, 4), 0);
  EXPECT_DOUBLE_EQ(value(BusFactor::one, 4), 1);
  EXPECT_DOUBLE_EQ(value(BusFactor::others, 4), 3.0 / 4);
  EXPECT_DOUBLE_EQ(value(BusFactor::two_others, 4), 2 * 3.0 / 4);
  EXPECT_DOUBLE_EQ(value(BusFactor::others, 1), 0);
}

TEST(BandwidthTest, IsBytesBySeconds) {
  const Bandwidth all_reduce = bandwidth(BusFactor::two_others, 8, 1 << 20, 1e-3);
  EXPECT_DOUBLE_EQ(all_reduce.algorithm, (1 << 20) * 1e3);
  EXPECT_DOUBLE_EQ(all_reduce.bus, (1 << 20) * 1e3 * 1.75);
}

TEST(LabelsTest, TellSourceDestinationPlaceAndLoss) {
  comm::launch("threads", {}, [](const comm::Communicator& comm) {
    const Labels labels(comm);
    const comm::Slice slice = comm::whole(comm.device().allocate(1000 * kLabelBytes));
    labels.write(slice, 3, 5);
    EXPECT_EQ(labels.wrong(slice, 3, 5), 0);
    EXPECT_EQ(labels.wrong(slice, 4, 5), 1000);
    EXPECT_EQ(labels.wrong(slice, 3, 4), 1000);
    labels.write(slice, 3, 5, 1);
    EXPECT_EQ(labels.wrong(slice, 3, 5), 1000);
    labels.clear(slice);
    EXPECT_EQ(labels.wrong(slice, 3, 5), 1000);
  });
}

TEST(LabelsTest, TellThePlaceOfManyElements) {
  constexpr std::int64_t kCount = 1'000'000;
  comm::launch("threads", {}, [](const comm::Communicator& comm) {
    const Labels labels(comm);
    const comm::Slice slice = comm::whole(comm.device().allocate(kCount * kLabelBytes));
    labels.write(slice, 3, 5);
    EXPECT_EQ(labels.wrong(slice, 3, 5), 0);
    const std::int64_t half = slice.bytes() / 2;
    labels.clear(comm::slice(slice.buffer, half, half));
    EXPECT_EQ(labels.wrong(slice, 3, 5), kCount / 2);
    labels.write(comm::slice(slice.buffer, half, half), 3, 5, kCount / 2);
    EXPECT_EQ(labels.wrong(slice, 3, 5), 0);
  });
}

TEST(LabelsTest, SumsAreExactForAllRanksThatMayBeAskedFor) {
  constexpr int kRanks = 4096;
  comm::launch("threads", {}, [](const comm::Communicator& comm) {
    const Labels labels(comm);
    const comm::Slice sum = comm::whole(comm.device().allocate(64 * kLabelBytes));
    const comm::Slice part = comm::whole(comm.device().allocate(64 * kLabelBytes));
    labels.write(sum, 0, 0, 7);
    for (int source = 1; source < kRanks; ++source) {
      labels.write(part, source, 0, 7);
      comm.device().reduce(sum, part, comm::Element::f32, comm::Reduction::sum);
    }
    EXPECT_EQ(labels.wrong_sums(sum, kRanks, 7), 0);
    EXPECT_EQ(labels.wrong_sums(sum, kRanks - 1, 7), 64);
    EXPECT_EQ(labels.wrong_sums(sum, kRanks, 8), 64);
  });
}

std::vector<const Primitive*> all_on_threads() {
  std::vector<const Primitive*> all;
  for (const Primitive& primitive : primitives())
    if (primitive.transport.empty()) all.push_back(&primitive);
  return all;
}

/// [primitive], the same on every rank.
std::vector<Timed> timed(const comm::LaunchOptions& options, std::int64_t bytes) {
  std::vector<Timed> result;
  comm::launch("threads", options, [&](const comm::Communicator& comm) {
    const Setting setting{comm, bytes, 0, comm.device().allocate(bytes),
                          comm.device().allocate(bytes)};
    std::vector<Timed> mine = time_in_turns(setting, all_on_threads(), 1, 3);
    if (comm.rank() == 0) result = std::move(mine);
  });
  return result;
}

class PrimitiveTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PrimitiveTest, testing::Values(2, 3, 4, 5));

TEST_P(PrimitiveTest, MovesTheRightDataAndTakesTime) {
  for (const comm::Hop hop : {comm::Hop::copy, comm::Hop::reference}) {
    for (const Timed& each : timed({.ranks = GetParam(), .hop = hop}, 10'000)) {
      SCOPED_TRACE(each.primitive->name);
      EXPECT_EQ(each.refusal, "");
      EXPECT_EQ(each.wrong, 0);
      EXPECT_EQ(each.seconds.size(), 3u);
      EXPECT_GT(*std::min_element(each.seconds.begin(), each.seconds.end()), 0);
      EXPECT_GE(each.batch, 1);
    }
  }
}

TEST_P(PrimitiveTest, RoundsDownToWholeEqualParts) {
  const int ranks = GetParam();
  for (const Timed& each : timed({.ranks = ranks}, 10'003)) {
    SCOPED_TRACE(each.primitive->name);
    if (each.primitive->factor == BusFactor::none) continue;
    EXPECT_LE(each.bytes, 10'003);
    EXPECT_GT(each.bytes, 10'003 - 4 * ranks * ranks);
    const bool cut = each.primitive->factor == BusFactor::others;
    EXPECT_EQ(each.count * 4 * (cut ? ranks : 1), each.bytes);
  }
}

TEST(PrimitivesTest, AreRefusedOneByOne) {
  int refused = 0;
  for (const Timed& each : timed({.ranks = 3, .ranks_per_node = 2}, 16)) {
    if (each.refusal.empty()) {
      EXPECT_EQ(each.wrong, 0);
      continue;
    }
    ++refused;
    EXPECT_TRUE(each.seconds.empty());
    const bool double_ring = each.primitive->name == "double_ring";
    EXPECT_EQ(each.refusal, double_ring
                                ? "double_ring: inner rings of 2 ranks do not divide 3 ranks evenly"
                                : "16 bytes are too few for 3 ranks; the least is 36");
  }
  EXPECT_EQ(refused, 2);
}

/// A row of the primitive, as if it had taken 1, 2 and 3 us.
PrimitiveRow row(std::string_view name) {
  const auto all = primitives();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Primitive& each) { return each.name == name; });
  return {{"a \"fast\" machine, two cores", "threads", "copy", 4, 2},
          {.primitive = &*found,
           .bytes = 8000,
           .count = 2000,
           .batch = 5,
           .seconds = {3e-6, 1e-6, 2e-6}}};
}

TEST(PrimitiveRowsTest, CsvHasAFieldPerColumn) {
  const auto fields = [](const std::string& line) {
    bool quoted = false;
    std::int64_t commas = 0;
    for (const char c : line) {
      quoted ^= c == '"';
      commas += c == ',' && !quoted;
    }
    return commas + 1;
  };
  PrimitiveRow refused = row("double_ring");
  refused.timed.seconds.clear();
  refused.timed.refusal = "no, because";
  EXPECT_EQ(fields(csv_text(row("all_reduce"))), fields(csv_header()));
  EXPECT_EQ(fields(csv_text(row("barrier"))), fields(csv_header()));
  EXPECT_EQ(fields(csv_text(refused)), fields(csv_header()));
  EXPECT_THAT(csv_text(row("all_reduce")),
              AllOf(StartsWith("\"a \"\"fast\"\" machine, two cores\","),
                    HasSubstr(",all_reduce,,4,2,copy,8000,2000,3,5,2e-06,"),
                    testing::EndsWith(",4e+09,6e+09,0,ok\n")));
  EXPECT_THAT(csv_text(refused), testing::EndsWith(",,\"no, because\"\n"));
}

TEST(PrimitiveRowsTest, WrongDataIsSaid) {
  PrimitiveRow wrong = row("broadcast");
  wrong.timed.wrong = 3;
  EXPECT_THAT(csv_text(wrong), testing::EndsWith(",3,invalid: wrong data\n"));
  EXPECT_THAT(nccl_text(std::vector{wrong}), HasSubstr("# Out of bounds values : 3 FAILED\n"));
}

/// Columns as nccl-tests has them: size count type redop root, then time algbw busbw #wrong out of
/// place and in place.
TEST(PrimitiveRowsTest, NcclTextHasTheColumnsOfNcclTests) {
  const std::string out_of_place = nccl_text(std::vector{row("all_to_all_direct")});
  EXPECT_THAT(
      out_of_place,
      HasSubstr("\n        8000          2000     float    none      -1     2.00    4.00    "
                "3.00       0      N/A     N/A     N/A     N/A\n"));
  const std::string in_place = nccl_text(std::vector{row("all_reduce"), row("all_reduce")});
  EXPECT_THAT(
      in_place,
      HasSubstr("\n        8000          2000     float     sum      -1      N/A     N/A    "
                " N/A     N/A     2.00    4.00    6.00       0\n"));
  EXPECT_THAT(in_place, HasSubstr("\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6\n"));
  EXPECT_THAT(in_place, AllOf(StartsWith("# ringspan primitives: all_reduce on threads, 4 ranks"),
                              HasSubstr("another rule")));
  EXPECT_THAT(nccl_text(std::vector{row("broadcast")}), HasSubstr("float    none       0 "));
  EXPECT_THAT(nccl_text(std::vector{row("barrier")}), HasSubstr("\n# moves no data; 2.00 us\n"));
}

TEST(PrimitiveRowsTest, NcclNumbersStayInTheirColumns) {
  PrimitiveRow slow = row("all_reduce");
  slow.timed.seconds = {123.456789};
  slow.timed.bytes = 1;
  EXPECT_THAT(nccl_text(std::vector{slow}), HasSubstr("  1.2e+08    0.00    0.00       0\n"));
  slow.timed.seconds = {0.0123456};
  EXPECT_THAT(nccl_text(std::vector{slow}), HasSubstr("  12345.6    0.00    0.00       0\n"));
}

}  // namespace
}  // namespace ringspan::bench
