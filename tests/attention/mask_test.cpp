// SPDX-License-Identifier: Apache-2.0
#include "attention/mask.hpp"

#include "comm/error.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringspan::attention {
namespace {

TEST(MaskTest, ReadsEveryPart) {
  EXPECT_EQ(parse_mask("full"), Mask{});
  EXPECT_EQ(parse_mask("causal"), (Mask{.right = 0}));
  EXPECT_EQ(parse_mask("window:40"), (Mask{.left = 40, .right = 0}));
  EXPECT_EQ(parse_mask("window:7:3"), (Mask{.left = 7, .right = 3}));
  EXPECT_EQ(parse_mask("window:0:0"), (Mask{.left = 0, .right = 0}));
  EXPECT_EQ(parse_mask("window:*:3"), (Mask{.right = 3}));
  EXPECT_EQ(parse_mask("documents"), (Mask{.documents = true}));
  EXPECT_EQ(parse_mask("window:9223372036854775807"), (Mask{.left = INT64_MAX, .right = 0}));
}

TEST(MaskTest, CombiningKeepsTheTightestBounds) {
  EXPECT_EQ(parse_mask("causal+window:7:3"), (Mask{.left = 7, .right = 0}));
  EXPECT_EQ(parse_mask("window:7:3+window:9:1"), (Mask{.left = 7, .right = 1}));
  EXPECT_EQ(parse_mask("window:2:3+window:9:5+full"), (Mask{.left = 2, .right = 3}));
  EXPECT_EQ(parse_mask("documents+causal+window:7:3"),
            (Mask{.left = 7, .right = 0, .documents = true}));
}

TEST(MaskTest, NamesAreReadBack) {
  for (const std::optional<std::int64_t> left : {std::optional<std::int64_t>{}, {0}, {40}}) {
    for (const std::optional<std::int64_t> right : {std::optional<std::int64_t>{}, {0}, {3}}) {
      for (const bool documents : {false, true}) {
        const Mask mask{left, right, documents};
        EXPECT_EQ(parse_mask(name(mask)), mask) << name(mask);
      }
    }
  }
}

TEST(MaskTest, NamesAreTheShortestOnes) {
  EXPECT_EQ(name(parse_mask("full+full")), "full");
  EXPECT_EQ(name(parse_mask("window:*:0")), "causal");
  EXPECT_EQ(name(parse_mask("window:40:0+causal")), "window:40");
  EXPECT_EQ(name(parse_mask("documents+window:7:3")), "window:7:3+documents");
  EXPECT_EQ(name(parse_mask("documents+causal")), "causal+documents");
}

TEST(MaskTest, RefusesEverythingElse) {
  for (const char* text : {"",
                           "+",
                           "causal+",
                           "+causal",
                           "causal++full",
                           "Causal",
                           "causal ",
                           " causal",
                           "none",
                           "window",
                           "window:",
                           "window:-1",
                           "window:+1",
                           "window:7:",
                           "window::3",
                           "window:7:-3",
                           "window:7:3:1",
                           "window:7.5",
                           "window:0x7",
                           "window: 7",
                           "window:9223372036854775808",
                           "documents:3,4",
                           "causal,documents"}) {
    EXPECT_THROW(parse_mask(text), Error) << '\'' << text << '\'';
  }
}

TEST(MaskTest, ErrorsSayWhatIsKnown) {
  try {
    parse_mask("causal+sliding:4");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("'sliding:4'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("window:LEFT[:RIGHT]"));
  }
}

}  // namespace
}  // namespace ringspan::attention
