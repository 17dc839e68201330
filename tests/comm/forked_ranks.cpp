// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/forked_ranks.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "comm/error.hpp"

namespace ringspan::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kSlotBytes = std::size_t{1} << 16;  // what a rank can gather at once

/// At the start of the shared memory; the ranks' slots follow.
struct Meeting {
  std::byte* slot(int rank) {
    return reinterpret_cast<std::byte*>(this) + (static_cast<std::size_t>(rank) + 1) * kSlotBytes;
  }

  void meet(int ranks, double deadline) {
    const auto end = Clock::now() + std::chrono::duration<double>(deadline);
    const int round = rounds.load();
    if (arrived.fetch_add(1) + 1 == ranks) {
      arrived = 0;
      ++rounds;
    }
    while (rounds.load() == round) {
      if (Clock::now() > end) throw Error(ErrorKind::timeout, "a rank does not come to gather");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::atomic<int> arrived{0};
  std::atomic<int> rounds{0};
};

Bootstrap bootstrap_over(Meeting& meeting, int rank, int ranks) {
  const auto all_gather = [&meeting, rank, ranks](const std::byte* mine, std::byte* all,
                                                  std::size_t bytes, double deadline) {
    RINGSPAN_REQUIRE(bytes <= kSlotBytes, bytes, " bytes to gather; at most ", kSlotBytes);
    std::memcpy(meeting.slot(rank), mine, bytes);
    meeting.meet(ranks, deadline);
    for (int from = 0; from < ranks; ++from)
      std::memcpy(all + static_cast<std::size_t>(from) * bytes, meeting.slot(from), bytes);
    meeting.meet(ranks, deadline);  // nobody overwrites what another has yet to read
  };
  return {rank, ranks, all_gather};
}

[[noreturn]] void run_rank(const Bootstrap& bootstrap,
                           const std::function<void(const Bootstrap&)>& body) {
  try {
    body(bootstrap);
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", bootstrap.rank, error.what());
    _exit(1);
  }
}

bool runs(pid_t process, int& status) {
  return process > 0 && waitpid(process, &status, WNOHANG) == 0;
}

// Only when a rank is alone, or stopped ones are alone, is nobody left who could end it.
bool stopped(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process;
}

}  // namespace

std::vector<int> fork_ranks(int ranks, double seconds,
                            const std::function<void(const Bootstrap&)>& body) {
  const std::size_t bytes = (static_cast<std::size_t>(ranks) + 1) * kSlotBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorKind::system, "no memory to share");
  Meeting& meeting = *new (memory) Meeting;

  std::fflush(nullptr);
  std::vector<pid_t> processes(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    processes[rank] = fork();
    if (processes[rank] == 0) run_rank(bootstrap_over(meeting, rank, ranks), body);
  }

  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<int> statuses(ranks, -1);
  for (;;) {
    int active = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (processes[rank] <= 0) continue;
      if (!runs(processes[rank], statuses[rank])) {
        processes[rank] = 0;
      } else if (!stopped(processes[rank])) {
        ++active;
      }
    }
    if (active == 0 || Clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (processes[rank] <= 0) continue;
    kill(processes[rank], SIGKILL);
    waitpid(processes[rank], &statuses[rank], 0);
  }
  munmap(memory, bytes);
  return statuses;
}

}  // namespace ringspan::comm
