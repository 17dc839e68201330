// SPDX-License-Identifier: Apache-2.0
#include "model/mesh_shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "comm/error.hpp"

namespace ringspan::model {
namespace mesh_shape_test {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}
std::string refused_text(std::string_view text) {
  return refusal([&] { parse_mesh(text); });
}
std::string refused_ranks(const MeshShape& shape, int ranks) {
  return refusal([&] { require_ranks(shape, ranks); });
}

TEST(MeshShapeTest, ReadsAxesInAnyOrder) {
  const MeshShape shape = parse_mesh("pipeline=3,data=2x4,tensor=8");
  EXPECT_EQ(shape, (MeshShape{.tensor = 8, .shard = 4, .replicate = 2, .pipeline = 3}));
  EXPECT_EQ(shape.data(), 8);
  EXPECT_EQ(parse_mesh("data=6"), (MeshShape{.replicate = 6}));
  EXPECT_EQ(parse_mesh("shard=2,ulysses=3,ring=5").sequence(), 15);
}

TEST(MeshShapeTest, ItsNameReadsBack) {
  for (const MeshShape& shape :
       {MeshShape{}, MeshShape{.tensor = 2, .ring = 2}, MeshShape{2, 3, 5, 7, 11, 13},
        MeshShape{.ulysses = 4, .shard = 2}}) {
    EXPECT_EQ(parse_mesh(name(shape)), shape) << name(shape);
  }
}

TEST(MeshShapeTest, SaysWhichAxesThereAre) {
  const auto lists_axes = AllOf(HasSubstr("tensor"), HasSubstr("ulysses"), HasSubstr("ring"),
                                HasSubstr("data"), HasSubstr("pipeline"));
  EXPECT_THAT(refused_text("expert=2"), AllOf(HasSubstr("'expert'"), lists_axes));
  EXPECT_THAT(refused_text(""), AllOf(HasSubstr("unknown axis ''"), lists_axes));
  EXPECT_THAT(refused_text("tensor=2,"), HasSubstr("unknown axis ''"));
}

TEST(MeshShapeTest, RefusesWhatIsNoDegree) {
  for (const char* text : {"tensor", "tensor=", "tensor=0", "tensor=-2", "tensor=2.5", "tensor=2 ",
                           "tensor=99999999999", "data=2x", "data=x2", "data=2x2x2"}) {
    EXPECT_THAT(refused_text(text), HasSubstr("a whole number of at least 1")) << text;
  }
  EXPECT_THAT(refused_text("ring=2,ring=2"), HasSubstr("ring is given twice"));
  EXPECT_THAT(refused_text("data=2,shard=2"), HasSubstr("shard is given twice"));
}

TEST(MeshShapeTest, ItsProductIsTheWorld) {
  require_ranks({.tensor = 8, .ulysses = 4, .pipeline = 2}, 64);
  require_ranks({}, 1);
  EXPECT_EQ(refused_ranks({.tensor = 8, .ulysses = 4, .pipeline = 4}, 64),
            "mesh: tensor=8,ulysses=4,pipeline=4 is for 128 ranks, the product of its axes, which "
            "must equal the world's 64; nearest is tensor=8,ulysses=4,pipeline=2");
  EXPECT_EQ(refused_ranks({.ring = 8, .shard = 8}, 8),
            "mesh: ring=8,shard=8 is for 64 ranks, the product of its axes, which must equal the "
            "world's 8; nearest is ring=8");
}

TEST(MeshShapeTest, WhatItNamesAsNearestIsLegal) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    for (const MeshShape& shape :
         {MeshShape{.tensor = 5}, MeshShape{4, 2, 3, 2, 2, 2}, MeshShape{.ring = 7, .shard = 2},
          MeshShape{.pipeline = 100}, MeshShape{.tensor = 1 << 30, .ring = 1 << 30}}) {
      const std::string message = refused_ranks(shape, ranks);
      if (message == "nothing was refused") continue;
      const std::string_view marker = "nearest is ";
      const auto found = message.find(marker);
      ASSERT_NE(found, message.npos) << message;
      require_ranks(parse_mesh(message.substr(found + marker.size())), ranks);
    }
  }
}

TEST(MeshShapeTest, TooFewRanksAreFilledUpWithReplicas) {
  EXPECT_THAT(refused_ranks({.tensor = 2}, 8), HasSubstr("nearest is tensor=2,replicate=4"));
  EXPECT_THAT(refused_ranks({.ulysses = 4}, 6), HasSubstr("nearest is ulysses=3,replicate=2"));
}

TEST(MeshShapeTest, RefusesDegreesBelowOneAndProductsBeyondCounting) {
  EXPECT_THAT(refused_ranks({.ring = 0}, 1), HasSubstr("ring is 0"));
  EXPECT_THAT(refused_ranks({.shard = -1, .replicate = -1}, 1), HasSubstr("shard is -1"));
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(refused_ranks({kMost, kMost, kMost, kMost, kMost, kMost}, 8), HasSubstr("nearest"));
  EXPECT_EQ(product({.shard = 65536, .replicate = 65536}), std::int64_t{1} << 32);
  EXPECT_EQ(product({.tensor = kMost, .ulysses = kMost, .ring = kMost}),
            std::numeric_limits<std::int64_t>::max());
}

TEST(MeshShapeTest, TrainingRefusesPipelinesByName) {
  require_trainable({.tensor = 2, .ulysses = 2, .ring = 2, .shard = 2, .replicate = 2});
  EXPECT_THAT(refusal([] { require_trainable({.replicate = 2, .pipeline = 4}); }),
              AllOf(HasSubstr("pipeline is 4"), HasSubstr("data=8")));
  const MeshShape many{.shard = 65536, .replicate = 65536, .pipeline = 2};
  EXPECT_THAT(refusal([&] { require_trainable(many); }), HasSubstr("data=8589934592"));
}

}  // namespace mesh_shape_test
}  // namespace ringspan::model
