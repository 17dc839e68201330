// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>

#include "comm/error.hpp"
#include "comm/transports/ucx/addresses.hpp"

namespace ringspan::comm::ucx {
namespace {

constexpr double kDeadline = 1.0;  // seconds; nothing here waits

const std::vector<std::byte> kAddress(8);

/// The bootstrap of rank 0 of 2, whose other rank brings zeros.
Bootstrap with_silent_rank() {
  return {0, 2, [](const std::byte* mine, std::byte* all, std::size_t bytes, double) {
            std::memcpy(all, mine, bytes);
            std::memset(all + bytes, 0, bytes);
          }};
}

TEST(AddressesTest, NameTheRankThatCouldNotStart) {
  try {
    exchange_addresses(with_silent_rank(), kAddress, kDeadline);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer_failed);
    EXPECT_EQ(error.where().peer, 1);
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 could not start UCX"));
  }
}

TEST(AddressesTest, AreNoneForARankThatCouldNotStartItself) {
  EXPECT_TRUE(exchange_addresses(with_silent_rank(), {}, kDeadline).empty());
}

TEST(AddressesTest, RefuseABootstrapThatMixesUpRanks) {
  Bootstrap bootstrap = with_silent_rank();
  bootstrap.rank = 1;
  EXPECT_THROW(exchange_addresses(bootstrap, kAddress, kDeadline), Error);
}

}  // namespace
}  // namespace ringspan::comm::ucx
