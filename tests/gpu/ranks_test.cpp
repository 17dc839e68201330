// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs: two processes on one of them, by cuda_ipc; and where there are several, one on
// each, by every transport. Run each suite in a process of its own: it forks before it touches a
// GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"
#include "comm/ring_exchange.hpp"
#include "tests/comm/forked_ranks.hpp"
#include "tests/comm/pattern.hpp"
#include "tests/gpu/gpu.hpp"

namespace ringspan::comm {
namespace {

constexpr double kLongest = 60;  // seconds
constexpr std::int64_t kBytes = 1'000'003;

/// Device memory is written and looked at by way of the host's.
void put(const Communicator& comm, const Slice& to, int source, int destination, int round) {
  const Slice values = whole(comm.device().allocate_values(to.bytes()));
  test::write_pattern(values, source, destination, round);
  comm.device().copy(to, values);
}

void require_pattern(const Communicator& comm, const Slice& from, int source, int destination,
                     int round) {
  const Slice values = whole(comm.device().allocate_values(from.bytes()));
  comm.device().copy(values, from);
  comm.device().synchronize(comm.deadline());
  const auto right = test::has_pattern(values, source, destination, round);
  require(static_cast<bool>(right), right.message());
}

void ring_of_patterns(const Communicator& comm) {
  RingExchange ring(comm, kBytes);
  put(comm, whole(ring.begin()), comm.rank(), 0, 0);
  for (int hop = 0; hop < 3 * comm.size(); ++hop) {
    require_pattern(comm, slice(ring.block(), 0, kBytes),
                    (comm.rank() + comm.size() * 3 - hop) % comm.size(), 0, 0);
    ring.start(kBytes, kBytes);
    ring.finish();
  }
}

void all_to_all_of_patterns(const Communicator& comm) {
  const std::int64_t part = 70'001;
  const Buffer out = comm.device().allocate(part * comm.size()),
               in = comm.device().allocate(part * comm.size());
  for (int round = 0; round < 3; ++round) {
    for (int peer = 0; peer < comm.size(); ++peer)
      put(comm, slice(out, peer * part, part), comm.rank(), peer, round);
    all_to_all(comm, whole(out), whole(in));
    for (int peer = 0; peer < comm.size(); ++peer)
      require_pattern(comm, slice(in, peer * part, part), peer, comm.rank(), round);
  }
}

/// Bytes a second that a rank sends around a ring, the least of all ranks.
double ring_rate(const Communicator& comm, std::int64_t bytes, int hops) {
  RingExchange ring(comm, bytes);
  ring.begin();
  const auto pass = [&] {
    ring.start(bytes, bytes);
    ring.finish();
  };
  pass();
  comm.device().synchronize(comm.deadline());
  barrier(comm);
  comm.device().synchronize(comm.deadline());
  const double start = comm.device().now();
  for (int hop = 0; hop < hops; ++hop) pass();
  comm.device().synchronize(comm.deadline());
  const double seconds = all_reduce(comm, comm.device().now() - start, Reduction::max);
  return static_cast<double>(bytes) * hops / seconds;
}

/// Forks before CUDA is initialised here: a child could not use it.
void on_two_processes(const RankFunction& body) {
  expect_all_well(fork_ranks(2, kLongest, [&](const Bootstrap& bootstrap) {
    launch("cuda_ipc", {.ranks = 2, .deadline = 20, .bootstrap = bootstrap}, body);
  }));
}

TEST(GpuProcessesTest, PassBlocksAroundARing) { on_two_processes(ring_of_patterns); }

TEST(GpuProcessesTest, ExchangeAllToAll) { on_two_processes(all_to_all_of_patterns); }

TEST(GpuProcessesTest, NameAProcessThatIsKilled) {
  const auto statuses = fork_ranks(2, kLongest, [](const Bootstrap& bootstrap) {
    std::optional<Error> failure;
    const auto start = std::chrono::steady_clock::now();
    try {
      launch("cuda_ipc", {.ranks = 2, .deadline = 20, .bootstrap = bootstrap},
             [](const Communicator& comm) {
               ring_of_patterns(comm);
               if (comm.rank() == 1) kill(getpid(), SIGKILL);
               ring_of_patterns(comm);
             });
    } catch (const Error& error) {
      failure = error;
    }
    require(failure && failure->kind() == ErrorKind::peer_failed && failure->where().peer == 1,
            failure ? failure->what() : "no error");
    require(std::chrono::steady_clock::now() - start < std::chrono::seconds(15), "noticed late");
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
}

// What waits on rank 0's GPU for a flag ends with it, or the second launch would not begin.
TEST(GpuProcessesTest, EndWhatWaitsForARankThatDoesNotPost) {
  constexpr double kDeadline = 2;  // seconds
  expect_all_well(fork_ranks(2, kLongest, [&](const Bootstrap& bootstrap) {
    LaunchOptions options{.ranks = 2, .deadline = kDeadline, .bootstrap = bootstrap};
    std::optional<Error> failure;
    const auto start = std::chrono::steady_clock::now();
    try {
      launch("cuda_ipc", options, [&](const Communicator& comm) {
        ring_of_patterns(comm);
        if (comm.rank() == 1)  // in its own code, where it sees no failure
          return std::this_thread::sleep_for(std::chrono::duration<double>(2 * kDeadline));
        ring_of_patterns(comm);
      });
    } catch (const Error& error) {
      failure = error;
    }
    require(failure && failure->where().peer == 1, failure ? failure->what() : "no error");
    require(std::chrono::steady_clock::now() - start < std::chrono::seconds(15), "noticed late");
    options.deadline = 20;
    launch("cuda_ipc", options, ring_of_patterns);
  }));
}

// Told by a pipe, for rank 0 is another process. One GPU has to be all that is visible, for the
// rate is judged by that of its own copies.
TEST(GpuProcessesTest, RingRateOnOneGpu) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  on_two_processes([&](const Communicator& comm) {
    const bool small = gpu::emulated(*gpu::first_gpu());
    const double rate = comm.size() * ring_rate(comm, small ? 1 << 16 : 256 << 20, small ? 2 : 40);
    if (comm.rank() == 0) require(write(ends[1], &rate, sizeof(rate)) == sizeof(rate), "pipe");
  });
  close(ends[1]);
  double rate = 0;
  ASSERT_EQ(read(ends[0], &rate, sizeof(rate)), static_cast<ssize_t>(sizeof(rate)));
  close(ends[0]);
  // As a copy of the device would be counted: each byte is read and written.
  gpu::record("ring_of_two_processes_gb_per_s", 2 * rate * 1e-9);
}

TEST(GpuThreadsTest, OneRankOfNccl) {
  const std::string reason = backend("nccl").unavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  launch("nccl", {.ranks = 1, .deadline = 20}, [](const Communicator& comm) {
    ring_of_patterns(comm);
    all_to_all_of_patterns(comm);
    require(all_reduce(comm.split(0, 0), 2.5, Reduction::sum) == 2.5, "a wrong sum");
  });
}

// NCCL is aborted while its group waits behind a stream that does not go on; what it leaves behind
// disturbs no later launch.
TEST(GpuThreadsTest, OneRankOfNcclIsAbortedAtTheDeadline) {
  const std::string reason = backend("nccl").unavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const auto start = std::chrono::steady_clock::now();
  try {
    launch("nccl", {.ranks = 1, .deadline = 1}, [](const Communicator& comm) {
      ring_of_patterns(comm);  // connected from here on
      const Buffer values = comm.device().allocate_values(sizeof(std::uint32_t));
      std::atomic_ref flag(*reinterpret_cast<std::uint32_t*>(values.data()));
      flag = 0;
      const auto& device = dynamic_cast<cuda::CudaDevice&>(comm.device());
      device.compute().wait_value(reinterpret_cast<cuda::Address>(values.data()), 1);
      try {
        ring_of_patterns(comm);
      } catch (const Error&) {
        flag = 1;
        throw;
      }
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  launch("nccl", {.ranks = 1, .deadline = 20}, ring_of_patterns);
}

class SeveralGpusTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Transports, SeveralGpusTest, testing::Values("nccl", "cuda_ipc"),
                         [](const auto& info) { return info.param; });

TEST_P(SeveralGpusTest, RingAndAllToAll) {
  const int gpus = std::min(8, cuda::device_count(gpu::first_gpu()->api()));
  if (gpus < 2) GTEST_SKIP() << "one GPU";
  const std::string reason = backend(GetParam()).unavailable();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const bool small = gpu::emulated(*gpu::first_gpu());
  launch(GetParam(), {.ranks = gpus, .deadline = 20}, [&](const Communicator& comm) {
    ring_of_patterns(comm);
    all_to_all_of_patterns(comm);
    const double rate = ring_rate(comm, small ? 1 << 16 : 256 << 20, small ? 2 : 20);
    if (comm.rank() == 0) gpu::record(GetParam() + "_busbw_gb_per_s", rate * 1e-9);
  });
}

}  // namespace
}  // namespace ringspan::comm
