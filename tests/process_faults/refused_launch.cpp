// SPDX-License-Identifier: Apache-2.0
// Two processes that mpirun has started, whose launch comes to nothing before it has begun. Status
// 0 if it ends as it should.
//   refused_launch refused TRANSPORT: of more ranks than processes; nobody is hurried at exit.
//   refused_launch alone TRANSPORT: one process never calls it; the other does not wait for longer
//                                   than it was told.
//   refused_launch initialised TRANSPORT: the same where the program has initialised MPI itself.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "comm/launch.hpp"

namespace ringspan::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// What a launch with options of its own throws, whatever the environment says.
std::string thrown_by(std::string_view transport, const LaunchOptions& options) {
  setenv("RINGSPAN_DEBUG", "nonsense", 1);
  setenv("RINGSPAN_TIMEOUT_S", "60", 1);
  try {
    launch(transport, options, [](const Communicator&) {});
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

bool told(const std::string& thrown, std::string_view wanted) {
  if (thrown.find(wanted) != thrown.npos) return true;
  std::fprintf(stderr, "thrown: %s\n", thrown.c_str());
  return false;
}

int refused(std::string_view transport, bool first) {
  const bool right = told(thrown_by(transport, {.ranks = 4, .deadline = 20}), "there are 2");
  if (first) std::this_thread::sleep_for(std::chrono::seconds(1));
  return right ? 0 : 1;
}

int alone(std::string_view transport, bool first) {
  const auto start = Clock::now();
  if (first) std::this_thread::sleep_for(std::chrono::seconds(5));
  const bool right =
      first || (told(thrown_by(transport, {.ranks = 2, .deadline = 1}), "no sign of rank 0") &&
                Clock::now() - start < std::chrono::seconds(4));
  return right ? 0 : 1;
}

}  // namespace
}  // namespace ringspan::comm

int main(int argc, char** argv) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (argc != 3 || !rank) return 2;
  const bool first = std::atoi(rank) == 0;
  const std::string_view mode = argv[1];
  if (mode == "refused") return ringspan::comm::refused(argv[2], first);
  if (mode == "alone") _exit(ringspan::comm::alone(argv[2], first));  // MPI has not begun
  MPI_Init(&argc, &argv);
  const int status = ringspan::comm::alone(argv[2], first);
  MPI_Finalize();
  return status;
}
