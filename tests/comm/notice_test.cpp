// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/notice.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "comm/transports/processes/wire.hpp"

namespace ringspan::comm::processes {
namespace {

template <typename Kind>
Kind there_and_back(const Kind& sent) {
  const std::vector<std::byte> bytes = encode(sent);
  EXPECT_LE(std::ssize(bytes), Wire::kLargestNotice);
  return std::get<Kind>(decode(bytes));
}

TEST(NoticeTest, CarriesAStatusWithAllThatTheRankWaitsFor) {
  const auto group = std::make_shared<diagnosis::Group>(7, std::vector<int>{4, 2});
  const Status sent{11, true, diagnosis::Waiting{group, 3, "all_to_all", {2, 9}}, {{7, 4}, {1, 8}}};
  const Status came = there_and_back(sent);
  EXPECT_EQ(came.heartbeat, 11);
  EXPECT_TRUE(came.returned);
  ASSERT_TRUE(came.waiting && came.waiting->group);
  EXPECT_EQ(came.waiting->group->id, 7);
  EXPECT_EQ(came.waiting->group->members, group->members);
  EXPECT_EQ(came.waiting->sequence, 3);
  EXPECT_EQ(came.waiting->operation, "all_to_all");
  EXPECT_EQ(came.waiting->peers, (std::vector<int>{2, 9}));
  ASSERT_EQ(came.posted.size(), 2u);
  EXPECT_EQ(came.posted[1].channel, 1);
  EXPECT_EQ(came.posted[1].operations, 8);
}

TEST(NoticeTest, CutsOffWhatWouldNotFit) {
  std::vector<int> ranks(5000);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = std::make_shared<diagnosis::Group>(7, ranks);
  const std::string text(5000, 'x');
  const Status status = there_and_back(Status{1, false, diagnosis::Waiting{group, 3, text, ranks},
                                              std::vector<Posted>(5000, Posted{})});
  ASSERT_FALSE(status.waiting->peers.empty());
  EXPECT_EQ(status.waiting->peers.back(), std::ssize(status.waiting->peers) - 1);
  const Failed failed = there_and_back(Failed{Error(ErrorKind::timeout, text, {1, 2, text, 3}), 4});
  EXPECT_EQ(text.find(failed.error.what()), 0u);
  EXPECT_EQ(failed.error.kind(), ErrorKind::timeout);
  EXPECT_EQ(failed.error.where().peer, 2);
  EXPECT_EQ(failed.error.where().sequence, 3);
  EXPECT_EQ(failed.thrown_by, 4);
}

TEST(NoticeTest, RefusesBytesThatAreNone) {
  EXPECT_THROW(decode({}), Error);
  EXPECT_THROW(decode(std::vector<std::byte>(1, std::byte{99})), Error);
  std::vector<std::byte> bytes = encode(Question{1, 2});
  bytes.pop_back();
  EXPECT_THROW(decode(bytes), Error);
}

}  // namespace
}  // namespace ringspan::comm::processes
