// SPDX-License-Identifier: Apache-2.0
#include "bench/ask/axes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/ask/mask_text.hpp"
#include "bench/ask/point.hpp"
#include "bench/rows/csv_columns.hpp"
#include "comm/error.hpp"
#include "comm/launch.hpp"

namespace ringspan::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The message with which `call` refuses.
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}

TEST(IntegersTest, ReadsListsRangesAndSuffixes) {
  EXPECT_THAT(integers("--ranks", "1,2,4", 1), ElementsAre(1, 2, 4));
  EXPECT_THAT(integers("--seq", "4Ki:16Ki:x2", 1), ElementsAre(4096, 8192, 16384));
  EXPECT_THAT(integers("--seq", "1:8:+3", 1), ElementsAre(1, 4, 7));
  EXPECT_THAT(integers("--seq", "7,1:3:+1,2Mi,1Gi", 1), ElementsAre(7, 1, 2, 3, 2 << 20, 1 << 30));
  EXPECT_THAT(integers("--seq", "4611686018427387904:9223372036854775807:x2", 1),
              ElementsAre(INT64_C(1) << 62));  // the next would not fit in 64 bits
}

TEST(IntegersTest, RefusesWhatIsNoListOrTooSmall) {
  for (const char* text : {"",
                           "1,",
                           ",1",
                           "1,,2",
                           "x",
                           "4K",
                           "4 Ki",
                           "1.5",
                           "1:2",
                           "1:2:3",
                           "1:8:x1",
                           "1:8:x",
                           "8:1:x2",
                           "1:8:+0",
                           "0:8:x2",
                           "-1",
                           "0",
                           "99999999999999999999",
                           "9999999999Gi",
                           "1:9223372036854775807:+1"}) {
    EXPECT_THAT(refusal([&] { integers("--seq", text, 1); }), HasSubstr("--seq: ")) << text;
  }
  EXPECT_THAT(refusal([] { integers("--seq", "0:8:x2", 0); }), HasSubstr("never leaves zero"));
}

TEST(NamesTest, ListsTheKnownOnes) {
  const std::vector<std::string_view> known{"copy", "reference"};
  EXPECT_THAT(names("--hop", "copy,reference", known), ElementsAre("copy", "reference"));
  EXPECT_THAT(refusal([&] { names("--hop", "copy,lend", known); }),
              HasSubstr("unknown value 'lend'; known are copy, reference"));
}

TEST(NumberTest, IsFiniteAndInRange) {
  EXPECT_EQ(number("--deadline", "0.5", 0, true), 0.5);
  for (const char* text : {"", "0", "-1", "x", "1s", "inf", "nan", "1e999"}) {
    EXPECT_THAT(refusal([&] { number("--deadline", text, 0, true); }), HasSubstr("--deadline: "))
        << text;
  }
}

TEST(MasksTest, KeepDocumentLengthsTogether) {
  EXPECT_THAT(masks("--mask", "full,documents:5,3+causal,window:4"),
              ElementsAre("full", "documents:5,3+causal", "window:4"));
  EXPECT_THAT(refusal([] { masks("--mask", "3,full"); }), HasSubstr("begins with a number"));
}

TEST(MaskTextTest, SplitsLengthsFromTheMask) {
  const MaskText mask = parse_mask_text("documents:5,0,2Ki+window:7:3");
  EXPECT_THAT(mask.documents, ElementsAre(5, 0, 2048));
  EXPECT_EQ(mask.mask, (attention::Mask{7, 3, true}));
  EXPECT_EQ(sequence(mask, 4096, 1).documents, mask.documents);

  const MaskText sampled = parse_mask_text("causal+documents:sampled");
  EXPECT_TRUE(sampled.sampled);
  EXPECT_EQ(sampled.mask, (attention::Mask{{}, 0, true}));
  EXPECT_FALSE(sequence(sampled, 4096, 1).documents.empty());

  for (const char* text :
       {"", "documents", "documents:", "documents:3,x", "documents:-1", "causal+", "+causal",
        "documents:1+documents:2", "xdocuments:3", "documents:sample"}) {
    EXPECT_NE(refusal([&] { parse_mask_text(text); }), "accepted") << text;
  }
}

TEST(PointsTest, MultiplyAxesAndPutFewerRanksFirst) {
  Axes axes;
  axes.names = {{&Point::schedule, {"ring", "zigzag"}}};
  axes.numbers = {{&Point::ranks, {4, 1}}, {&Point::sequence_length, {8, 16}}};
  const std::vector<Point> product = points(axes);
  ASSERT_EQ(product.size(), 8u);
  EXPECT_EQ(product[0].ranks, 1);
  EXPECT_EQ(product[3].ranks, 1);
  EXPECT_EQ(product[4].ranks, 4);
  EXPECT_EQ(product[4].schedule, "ring");
  EXPECT_EQ(product[4].layout, "contiguous");
  EXPECT_EQ(product[5].layout, "zigzag");
}

TEST(PointsTest, DropAnAxisWhereTheScheduleHasNone) {
  Axes axes;
  axes.names = {{&Point::schedule, {"ring", "usp"}},
                {&Point::placement, {"ulysses_inner", "ring_inner"}}};
  axes.numbers = {{&Point::ranks, {4}}, {&Point::ulysses_degree, {1, 2, 4}}};
  const std::vector<Point> product = points(axes);
  ASSERT_EQ(product.size(), 7u);  // one ring and six of usp
  for (const Point& point : product) {
    EXPECT_EQ(point.placement.empty(), point.schedule == "ring");
    EXPECT_EQ(point.ulysses_degree * point.ring_degree, 4);
  }
}

// An inner ring is the ranks of a node, but usp has one ring unless asked.
TEST(PointsTest, FollowTheNodesWithInnerRings) {
  Axes axes;
  axes.names = {{&Point::schedule, {"zigzag", "usp", "double_ring"}},
                {&Point::pass, {"both"}},
                {&Point::backward, {"q"}}};
  axes.numbers = {{&Point::ranks, {8}}, {&Point::ranks_per_node, {4}}};
  for (const Point& point : points(axes)) {
    EXPECT_EQ(point.inner_ring, point.schedule == "double_ring" ? 4 : 0);
    EXPECT_EQ(schedule_options(point).backward, attention::BackwardForm::q);
  }
  axes.numbers.push_back({&Point::inner_ring, {2}});
  for (const Point& point : points(axes)) {
    EXPECT_EQ(schedule_options(point).inner_ring, point.schedule == "zigzag" ? 0 : 2);
  }
}

// Overlapped by what its name implies unless asked, but usp in one group.
TEST(PointsTest, HaveHeadGroupsWhereTheScheduleHas) {
  Axes axes;
  axes.names = {{&Point::schedule, {"ulysses", "usp", "ulysses_overlapped"}}};
  axes.numbers = {{&Point::ranks, {2}}};
  for (const Point& point : points(axes)) {
    EXPECT_EQ(point.head_groups, point.schedule == "ulysses_overlapped" ? 4 : 0);
  }
  axes.numbers.push_back({&Point::head_groups, {2, 3}});
  const std::vector<Point> product = points(axes);
  EXPECT_EQ(product.size(), 5u);  // one of ulysses, two of each of the others
  for (const Point& point : product) {
    EXPECT_EQ(point.head_groups == 0, point.schedule == "ulysses");
    EXPECT_EQ(schedule_options(point).head_groups, point.head_groups);
  }
}

TEST(PointsTest, RefuseAnAxisThatNoScheduleHas) {
  Axes axes;
  axes.names = {{&Point::schedule, {"ring", "striped"}}, {&Point::all_to_all, {"direct"}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--all-to-all: none of the schedules"));
  axes.names = {{&Point::schedule, {"striped"}}, {&Point::layout, {"striped"}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--layout"));
  axes.names = {{&Point::schedule, {"ulysses"}}};
  axes.numbers = {{&Point::ulysses_degree, {2}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--ulysses-degree"));
  axes.names = {{&Point::schedule, {"ulysses"}}, {&Point::backward, {"q"}}};
  axes.numbers = {};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--backward"));
  axes.names = {{&Point::schedule, {"ring"}}};
  axes.numbers = {{&Point::inner_ring, {2}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--inner-ring"));
  axes.numbers = {{&Point::head_groups, {2}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("--head-groups"));
}

TEST(PointsTest, RefuseMoreThanAnyoneMeans) {
  Axes axes;
  axes.numbers = {{&Point::sequence_length, std::vector<std::int64_t>(100'000, 1), "--seq"},
                  {&Point::batch, {1}, "--batch"},
                  {&Point::heads, std::vector<std::int64_t>(3, 1), "--heads"}};
  EXPECT_EQ(refusal([&] { points(axes); }),
            "the values of --seq 100000, --heads 3 multiply to more than 200000 points; give "
            "fewer, or several sweeps");
  axes.numbers.assign(9, axes.numbers[0]);  // no product of 64 bits
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("more than 200000 points"));
}

TEST(PointsTest, FillInWhatWasLeftOpen) {
  Axes axes;
  axes.names = {{&Point::schedule, {"usp"}}, {&Point::pass, {"both"}}};
  axes.numbers = {
      {&Point::ranks, {6}}, {&Point::ranks_per_node, {3}}, {&Point::tokens_per_rank, {5}}};
  axes.models = {"llama3-8b"};
  const Point point = points(axes).at(0);
  EXPECT_EQ(point.sequence_length, 30);
  EXPECT_EQ(point.heads, 32);
  EXPECT_EQ(point.kv_heads, 8);
  EXPECT_EQ(point.value_dim, 128);
  EXPECT_EQ(point.ulysses_degree, 3);
  EXPECT_EQ(point.ring_degree, 2);
  EXPECT_EQ(point.placement, "ulysses_inner");
  EXPECT_EQ(point.all_to_all, "direct");
  EXPECT_EQ(point.backward, "kv");
}

TEST(PointsTest, NodesAreThoseOfTheProcesses) {
  for (const comm::Backend& backend : comm::backends()) {
    Axes axes;
    axes.names = {{&Point::transport, {std::string(backend.name)}}};
    axes.numbers = {{&Point::ranks, {1, 2, 4, 8}}};
    const std::vector<int> nodes{0, 1, 1, 1};
    const bool processes = backend.process != nullptr;
    std::vector<std::int64_t> on_a_node, pretended;
    for (const Point& point : points(axes, nodes)) on_a_node.push_back(point.ranks_per_node);
    EXPECT_EQ(on_a_node, processes ? std::vector<std::int64_t>({1, 1, 3, 8})
                                   : std::vector<std::int64_t>({1, 2, 4, 8}));
    axes.numbers.push_back({&Point::ranks_per_node, {2}});
    for (const Point& point : points(axes, nodes)) pretended.push_back(point.ranks_per_node);
    EXPECT_EQ(pretended, std::vector<std::int64_t>({1, 2, 2, 2}));
  }
}

TEST(PointsTest, RefuseMoreTokensThanFitIn64Bits) {
  Axes axes;
  axes.numbers = {{&Point::ranks, {4}}, {&Point::tokens_per_rank, {INT64_C(1) << 62}}};
  EXPECT_THAT(refusal([&] { points(axes); }), HasSubstr("do not fit in 64 bits"));
}

}  // namespace
}  // namespace ringspan::bench
