// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/diagnosis/flight_recorder.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>

#include "comm/collectives.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm {
namespace {

/// A folder of this process's own that is gone after the test.
class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "ringspan_recorder_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = std::filesystem::path(name) / "made";
  }
  ~Folder() { std::filesystem::remove_all(path_.parent_path()); }

  std::string path() const { return path_.string(); }
  std::string file(int rank) const {
    std::ifstream file(path_ / concat("rank-", rank, ".txt"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path path_;
};

/// Rank 0 ends in a hop in which rank 1 receives, but does not send.
void fail_in_the_second_hop(const Communicator& comm) {
  const Buffer out = comm.device().allocate(24), in = comm.device().allocate(24);
  for (int hop = 0; hop < 2; ++hop) {
    const bool fails = hop == 1 && comm.rank() == 1;
    Send sends[] = {{comm.next(), whole(out)}};
    Recv recvs[] = {{comm.prev(), whole(in)}};
    comm.post("hop", fails ? std::span<Send>() : sends, recvs).wait();
    if (fails) throw std::runtime_error("boom");
  }
}

TEST(FlightRecorderTest, LeavesTheLastOperationsOfEachRankAfterAFailure) {
  const Folder folder;
  LaunchOptions options{.ranks = 2, .deadline = 20};
  options.flight_recorder = folder.path();
  bool has_rank_0 = false;
  ASSERT_TRUE(test::failure_of(options, [&](const Communicator& comm) {
    if (comm.rank() == 0) has_rank_0 = true;
    fail_in_the_second_hop(comm);
  }));
  if (!has_rank_0) return;  // that is another process
  const std::string text = folder.file(0);
  EXPECT_NE(text.find("peer_failed: rank 1: boom\n"), std::string::npos) << text;
  const std::string hop = ", hop: 24 bytes to 1, 24 bytes from 1; posted ";
  const auto first = text.find("operation 0" + hop), second = text.find("operation 1" + hop);
  EXPECT_LT(first, text.find(", done "));
  EXPECT_LT(text.find(", done "), second);
  EXPECT_LT(second, text.find(", in flight\n")) << text;
  EXPECT_NE(text.find(", in flight\n"), std::string::npos) << text;
}

/// Whether the ranks of this process have left theirs, which no other process writes.
testing::AssertionResult left_by_all(const Folder& folder, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (!test::on_threads() && rank != test::process().rank) continue;
    if (folder.file(rank).empty()) return testing::AssertionFailure() << "not of rank " << rank;
  }
  return testing::AssertionSuccess();
}

TEST(FlightRecorderTest, LeavesThoseOfARankThatHadReturnedBefore) {
  const Folder folder;
  LaunchOptions options{.ranks = 3, .deadline = 20};
  options.flight_recorder = folder.path();
  ASSERT_TRUE(test::failure_of(options, [&](const Communicator& comm) {
    barrier(comm);
    if (comm.rank() != 1) barrier(comm);
  }));
  EXPECT_TRUE(left_by_all(folder, 3));
}

TEST(FlightRecorderTest, LeavesThoseOfAllWhereTheLedgerFindsAFailureInTheEnd) {
  const Folder folder;
  LaunchOptions options{.ranks = 2, .deadline = 20, .debug = {.ledger = true}};
  options.flight_recorder = folder.path();
  ASSERT_TRUE(test::failure_of(options, [&](const Communicator& comm) {
    if (comm.rank() == 1) comm.post("alone", {}, {}).wait();
  }));
  EXPECT_TRUE(left_by_all(folder, 2));
}

TEST(FlightRecorderTest, LeavesNothingWhenAllGoesWell) {
  const Folder folder;
  LaunchOptions options{.ranks = 2, .deadline = 20};
  options.flight_recorder = folder.path();
  test::launch(options, [](const Communicator& comm) { barrier(comm); });
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
}

TEST(FlightRecorderTest, KeepsTheNewestOperations) {
  const Folder folder;
  diagnosis::FlightRecorder recorder(7);
  for (std::int64_t sequence = 0; sequence < 1000; ++sequence)
    recorder.done(recorder.post({3, sequence, "step"}));
  recorder.dump(folder.path(), Error(ErrorKind::timeout, "late"));
  const std::string text = folder.file(7);
  EXPECT_EQ(text.find("operation 743, step"), std::string::npos);
  EXPECT_LT(text.find("operation 744, step"), text.find("operation 999, step"));
}

}  // namespace
}  // namespace ringspan::comm
