// SPDX-License-Identifier: Apache-2.0
// Whom a wait in vain is blamed on, read off a board that says exactly what is known.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "comm/transports/diagnosis/board.hpp"

namespace ringspan::comm::diagnosis {
namespace {

class FakeBoard final : public Board {
 public:
  int size() const override { return 4; }
  std::int64_t heartbeat(int rank) const override { return heartbeats.at(rank); }
  std::optional<Waiting> waiting(int rank) const override {
    const auto found = waits.find(rank);
    return found == waits.end() ? std::nullopt : std::optional<Waiting>(found->second);
  }
  std::int64_t posted(const Group&, int rank) const override { return posts.at(rank); }
  bool returned(int rank) const override { return gone.count(rank) > 0; }
  bool answers(int rank) const override { return silent.count(rank) == 0; }

  std::vector<std::int64_t> heartbeats = {9, 9, 9, 9};
  std::vector<std::int64_t> posts = {152, 152, 152, 152};
  std::map<int, Waiting> waits;
  std::set<int> gone, silent;
};

Waiting all_to_all(std::vector<int> peers, std::int64_t sequence = 151) {
  static const auto everyone = std::make_shared<Group>(0, std::vector<int>{0, 1, 2, 3});
  return {everyone, sequence, "all_to_all", std::move(peers)};
}

TEST(BlameTest, NamesTheRankThatHasNotPostedAndItsLastOperation) {
  FakeBoard board;
  board.posts[2] = 151;
  board.heartbeats[2] = 3;
  const Error error = blame(board, 0, all_to_all({1, 2, 3}), 5);
  EXPECT_EQ(error.where().peer, 2);
  EXPECT_EQ(error.where().sequence, 151);
  EXPECT_STREQ(error.what(),
               "operation 151, all_to_all: posted by 0, 1, 3; not by 2, whose last was 150; rank 2 "
               "makes no progress (deadline 5 s)");
}

TEST(BlameTest, SaysOfARankThatDoesNotAnswerOnlyWhatItIsKnownToHaveDone) {
  FakeBoard board;
  board.posts[3] = 10;
  board.silent = {3};
  board.heartbeats[3] = 100;  // from before it fell silent
  const Error error = blame(board, 0, all_to_all({1, 3}), 5);
  EXPECT_EQ(error.where().peer, 3);
  EXPECT_STREQ(error.what(),
               "operation 151, all_to_all: posted by 0, 1, 2; no answer from 3, whose last known "
               "was 9; rank 3 makes no progress (deadline 5 s)");
}

TEST(BlameTest, FollowsAChainOfWaitsToItsEnd) {
  FakeBoard board;
  board.waits[1] = all_to_all({2});
  board.waits[2] = all_to_all({3});
  EXPECT_EQ(blame(board, 0, all_to_all({1}), 5).where().peer, 3);
  board.gone = {3};
  const Error returned = blame(board, 0, all_to_all({1}), 5);
  EXPECT_EQ(returned.kind(), ErrorKind::peer_failed);
  EXPECT_EQ(returned.where().peer, 3);
  EXPECT_NE(std::string(returned.what()).find("rank 3 has returned"), std::string::npos);
}

TEST(BlameTest, TellsACycleAndWhoeverOwesAPostInIt) {
  FakeBoard board;
  board.waits[1] = all_to_all({0});
  const Error owed_by_none = blame(board, 0, all_to_all({1}), 5);
  EXPECT_EQ(owed_by_none.where().peer, -1);
  EXPECT_STREQ(
      owed_by_none.what(),
      "operation 151, all_to_all: posted by all; rank 0 waits for rank 1 in operation 151, "
      "all_to_all; rank 1 waits for rank 0 in operation 151, all_to_all (deadline 5 s)");
  board.posts[1] = 151;
  EXPECT_EQ(blame(board, 0, all_to_all({1}), 5).where().peer, 1);
}

TEST(BlameTest, NamesTheRankThatWaitsForNobody) {
  FakeBoard board;
  board.waits[1] = {nullptr, 3, "kernels before operation 3, all_to_all", {}};
  const Error error = blame(board, 0, all_to_all({1}), 5);
  EXPECT_EQ(error.where().peer, 1);
  EXPECT_STREQ(error.what(),
               "operation 151, all_to_all: posted by all; rank 0 waits for rank 1 in operation "
               "151, all_to_all; rank 1 waits in kernels before operation 3, all_to_all (deadline "
               "5 s)");
}

TEST(BlameTest, IsNotConfusedWhenTheRankThatGivesUpHasReturnedItself) {
  FakeBoard board;
  board.gone = {0};
  const Error error = blame(board, 0, {nullptr, -1, "end of the launch", {2}}, 5);
  EXPECT_EQ(error.where().peer, 2);
  EXPECT_STREQ(error.what(), "end of the launch; rank 2 makes no progress (deadline 5 s)");
}

}  // namespace
}  // namespace ringspan::comm::diagnosis
