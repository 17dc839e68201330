// SPDX-License-Identifier: Apache-2.0
#include "comm/buffer.hpp"

#include <limits>
#include <utility>

#include "tests/comm/pattern.hpp"

namespace ringspan::comm {
namespace buffer_test {

using test::refusal;

/// A buffer that claims any size, without the memory.
Buffer claim(std::int64_t bytes) { return Buffer(nullptr, bytes, {}); }

std::string refusal_of(const Slice& slice) {
  return refusal([&] { require_inside(slice); });
}

TEST(BufferTest, ReleasesItsMemoryOnceWithTheLastReference) {
  int released = 0;
  std::byte byte{};
  {
    Buffer first(&byte, 1, [&] { ++released; });
    EXPECT_TRUE(first.sole_owner());
    Buffer second = first, third = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved from means empty
    EXPECT_FALSE(second.sole_owner());
    const Buffer& same = second;
    second = same;
    third = {};
    EXPECT_TRUE(second.sole_owner());
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(BufferTest, IsEmptyByDefault) {
  const Buffer none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.sole_owner());
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.bytes(), 0);
  EXPECT_EQ(refusal_of(whole(none)), "");
}

TEST(SliceTest, MustLieInsideItsBuffer) {
  const Buffer buffer = claim(100);
  EXPECT_EQ(refusal_of(slice(buffer, 60, 40)), "");
  EXPECT_EQ(refusal_of({buffer, 10, 4, 15, 25}), "");  // 10 + 3 * 25 + 15 == 100
  EXPECT_EQ(
      refusal_of({buffer, 11, 4, 15, 25}),
      "slice: 4 rows of 15 bytes, 25 apart from offset 11, do not fit in a buffer of 100 bytes");
  EXPECT_NE(refusal_of(slice(buffer, -1, 10)), "");
  EXPECT_NE(refusal_of({buffer, 0, -1, 10, 10}), "");
  EXPECT_NE(refusal_of({buffer, 0, 2, 10, -10}), "");
  EXPECT_EQ(refusal_of({buffer, 1000, 0, 10, 10}), "");  // nothing lies anywhere
}

TEST(SliceTest, CountsIn64Bits) {
  for (const std::int64_t bytes : {(1LL << 31) - 1, 1LL << 31, (1LL << 31) + 1, 1LL << 40}) {
    EXPECT_EQ(refusal_of(whole(claim(bytes))), "");
    EXPECT_NE(refusal_of(slice(claim(bytes), 1, bytes)), "");
    EXPECT_EQ(refusal_of({claim(bytes), bytes - 2, 2, 1, 1}), "");
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refusal_of({claim(100), 0, most, 1, most}), "");  // products and sums that would wrap
  EXPECT_NE(refusal_of({claim(100), most, 1, most, most}), "");
}

}  // namespace buffer_test
}  // namespace ringspan::comm
