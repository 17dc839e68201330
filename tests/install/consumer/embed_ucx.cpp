// SPDX-License-Identifier: Apache-2.0
// Ranks that no MPI has started. Any launcher will do that tells each process its rank, how many
// there are, and a fresh folder that all of them see:
//   embed_ucx RANK RANKS FOLDER
// Without arguments it forks three ranks itself. They find each other through files and then pass
// blocks around a ring, and to everybody, over UCX.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ringspan/comm/all_to_all.hpp>
#include <ringspan/comm/launch.hpp>
#include <ringspan/comm/ring_exchange.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace comm = ringspan::comm;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// All that Ringspan asks for: an all-gather of small blocks. Yours may go through a TCP store, PMI,
// or what your trainer has. Here each call leaves one file per rank, which the others wait for.
comm::Bootstrap through_files(const fs::path& folder, int rank, int ranks) {
  // Copies of the function are called, so what it counts is shared.
  auto all_gather = [=, calls = std::make_shared<int>(0)](const std::byte* mine, std::byte* all,
                                                          std::size_t bytes, double deadline) {
    const int call = (*calls)++;
    const auto name = [&](int of) {
      return folder / (std::to_string(call) + "." + std::to_string(of));
    };
    const fs::path draft = name(rank).string() + ".draft";
    std::ofstream(draft, std::ios::binary)
        .write(reinterpret_cast<const char*>(mine), static_cast<std::streamsize>(bytes));
    fs::rename(draft, name(rank));  // so that nobody reads half of it

    const auto end = Clock::now() + std::chrono::duration<double>(deadline);
    for (int from = 0; from < ranks; ++from) {
      while (!fs::exists(name(from))) {
        if (Clock::now() > end)
          throw std::runtime_error("rank " + std::to_string(from) + " does not come");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::ifstream(name(from), std::ios::binary)
          .read(reinterpret_cast<char*>(all + static_cast<std::size_t>(from) * bytes),
                static_cast<std::streamsize>(bytes));
    }
  };
  return {rank, ranks, all_gather};
}

// What every rank brought, added up one hop at a time.
int sum_around_ring(const comm::Communicator& world) {
  comm::RingExchange ring(world, sizeof(int));
  const int mine = 1 << world.rank();
  std::memcpy(ring.begin().data(), &mine, sizeof mine);
  int sum = 0;
  for (int step = 0; step < world.size(); ++step) {
    const bool last = step + 1 == world.size();
    if (!last) ring.start(sizeof(int), sizeof(int));
    int held = 0;
    std::memcpy(&held, ring.block().data(), sizeof held);
    sum += held;
    if (!last) ring.finish();
  }
  return sum;
}

// Chunk `to` of what a rank sends names both; chunk `from` of what it receives must, too.
bool all_to_all_is_right(const comm::Communicator& world) {
  const comm::Buffer sent = world.device().allocate(world.size());
  const comm::Buffer received = world.device().allocate(world.size());
  for (int to = 0; to < world.size(); ++to)
    sent.data()[to] = static_cast<std::byte>(16 * world.rank() + to);
  comm::all_to_all(world, comm::whole(sent), comm::whole(received));
  for (int from = 0; from < world.size(); ++from)
    if (received.data()[from] != static_cast<std::byte>(16 * from + world.rank())) return false;
  return true;
}

int run_rank(int rank, int ranks, const fs::path& folder) {
  comm::LaunchOptions options;
  options.ranks = ranks;
  options.deadline = 20;
  options.bootstrap = through_files(folder, rank, ranks);
  bool right = true;
  for (int launch = 0; launch < 2; ++launch)  // as often as there is work for them
    comm::launch("ucx", options, [&](const comm::Communicator& world) {
      right =
          right && sum_around_ring(world) == (1 << world.size()) - 1 && all_to_all_is_right(world);
    });
  if (right) std::printf("rank %d of %d has heard from all\n", rank, ranks);
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int fork_ranks(int ranks) {
  std::string folder = (fs::temp_directory_path() / "embed_ucx.XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("no folder for the ranks to meet in");
  for (int rank = 0; rank < ranks; ++rank)
    if (fork() == 0) return run_rank(rank, ranks, folder);  // before anything has touched UCX
  bool right = true;
  for (int status = 0; wait(&status) > 0;) right = right && status == 0;
  fs::remove_all(folder);
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char** arguments) {
  try {
    if (count == 1) return fork_ranks(3);
    if (count == 4) return run_rank(std::stoi(arguments[1]), std::stoi(arguments[2]), arguments[3]);
    std::fprintf(stderr, "usage: embed_ucx [RANK RANKS FOLDER]\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_ucx: %s\n", error.what());
  }
  return EXIT_FAILURE;
}
