// SPDX-License-Identifier: Apache-2.0
// Messages longer than 1 GiB, which no network takes whole. They need gigabytes and seconds.
#include <algorithm>
#include <cstring>

#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
constexpr std::int64_t kBlock = 1 << 20;

/// Calls `visit(block, its bytes, a byte that only the blocks around do not share)`.
template <typename Visit>
void for_each_block(const Slice& slice, const Visit& visit) {
  for (std::int64_t row = 0, number = 0; row < slice.rows; ++row) {
    for (std::int64_t at = 0; at < slice.row_bytes; at += kBlock, ++number) {
      visit(slice.data() + row * slice.stride + at, std::min(kBlock, slice.row_bytes - at),
            static_cast<unsigned char>(number * 7 + number / 256 + 1));
    }
  }
}

void expect_arrival(const Communicator& comm, std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t stride = row_bytes + (rows > 1 ? 64 : 0);
  Slice slice{comm.device().allocate(rows * stride), 0, rows, row_bytes, stride};
  Send sends[] = {{1, slice}};
  Recv recvs[] = {{0, slice}};
  if (comm.rank() == 0) {
    for_each_block(slice, [](std::byte* block, std::int64_t bytes, unsigned char value) {
      std::memset(block, value, bytes);
    });
    comm.post("large", sends, {}).wait();
    return;
  }
  comm.post("large", {}, recvs).wait();
  std::int64_t wrong = 0;
  for_each_block(slice, [&](const std::byte* block, std::int64_t bytes, unsigned char value) {
    const auto right = [=](std::byte found) { return found == std::byte{value}; };
    wrong += bytes - std::count_if(block, block + bytes, right);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(LargeMessageTest, ArrivesWholeInOnePiece) {
  test::launch({.ranks = 2, .deadline = 60},
               [](const Communicator& comm) { expect_arrival(comm, 1, kGibibyte + 1); });
}

TEST(LargeMessageTest, ArrivesWholeInRows) {
  test::launch({.ranks = 2, .deadline = 60},
               [](const Communicator& comm) { expect_arrival(comm, 2, kGibibyte / 2 + 3); });
}

}  // namespace
}  // namespace ringspan::comm
