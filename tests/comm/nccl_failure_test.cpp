// SPDX-License-Identifier: Apache-2.0
// What fails in NCCL, and how that is told, on the emulated one with injected faults.
#include <chrono>
#include <string>

#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "tests/comm/streams_failure.hpp"

namespace ringspan::comm {
namespace {

using test::failure_of;
using test::kDeadline;
using test::pass_on;

class NcclFailureTest : public test::InjectedFaultTest {};

TEST_F(NcclFailureTest, AbortsAGroupThatNeverEnds) {
  emulation_fail("ncclKernel", 0, 1, 1);
  testing::internal::CaptureStderr();
  const auto start = std::chrono::steady_clock::now();
  const auto error =
      failure_of("nccl", {.ranks = 2, .deadline = kDeadline}, [](const Communicator& comm) {
        pass_on(comm, whole(comm.device().allocate(8)), whole(comm.device().allocate(8))).wait();
        comm.device().synchronize(comm.deadline());
      });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // no work is left behind
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::timeout);
  // One deadline to notice it and one to let go of the memory; the rest for a busy machine.
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 30 * kDeadline);
}

TEST_F(NcclFailureTest, ReportsWhatNcclSaysOfAPeer) {
  const auto error = failure_of("nccl", {.ranks = 2, .deadline = 20}, [](const Communicator& comm) {
    barrier(comm);
    if (comm.rank() == 0) emulation_fail("asyncError", 0, 1, 6);
    Recv recvs[] = {{comm.prev(), whole(comm.device().allocate(8))}};
    comm.post("never_sent", {}, recvs).wait();
    comm.device().synchronize(comm.deadline());
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::peer_failed);
  EXPECT_NE(std::string(error->what()).find("remote process exited"), std::string::npos);
}

TEST_F(NcclFailureTest, SeesThatPostsFailAndThatConnectingTakesTooLong) {
  emulation_fail("ncclGroupEnd", 0, 1, 3);
  const auto post = failure_of("nccl", {.ranks = 2, .deadline = 20}, barrier);
  ASSERT_TRUE(post);
  EXPECT_EQ(post->kind(), ErrorKind::system);
  EXPECT_NE(std::string(post->what()).find("ncclGroupEnd"), std::string::npos) << post->what();
  emulation_fail("asyncError", 0, 1'000'000'000, 7);
  const auto connect = failure_of("nccl", {.ranks = 2, .deadline = kDeadline}, barrier);
  ASSERT_TRUE(connect);
  EXPECT_EQ(connect->kind(), ErrorKind::timeout);
  EXPECT_NE(std::string(connect->what()).find("all ranks to be connected"), std::string::npos);
}

TEST_F(NcclFailureTest, SaysInNcclsWordsWhyThereIsNoId) {
  emulation_fail("ncclGetUniqueId", 0, 1, 2);
  const auto error = failure_of("nccl", {.ranks = 2}, [](const Communicator&) { FAIL(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::system);
  EXPECT_STREQ(error->what(), "ncclGetUniqueId: emulated error: no socket interface found");
}

TEST_F(NcclFailureTest, SaysWhyItIsNotAvailable) {
  const auto reason = [] { return backend("nccl").unavailable(); };
  EXPECT_EQ(reason(), "");
  EXPECT_EQ(backend("nccl").found(), "NCCL 2.21.5; 64 GPUs, the first Emulated GPU (sm_90)");
  emulation_fail("cuInit", 0, 1, 100);
  EXPECT_EQ(reason(), "no CUDA device");
  emulation_fail("driverVersion", 0, 1, 11080);
  EXPECT_EQ(reason(), "the CUDA driver is for CUDA 11.8; 12.0 is needed");
  emulation_fail("ncclVersion", 0, 2, 21703);
  EXPECT_EQ(reason(), "NCCL is version 2.17.3; 2.18.0 is needed");
  EXPECT_EQ(
      failure_of("nccl", {.ranks = 2, .hop = Hop::reference}, [](const Communicator&) { FAIL(); })
          ->kind(),
      ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace ringspan::comm
