// SPDX-License-Identifier: Apache-2.0
#include "tests/process_faults/file_bootstrap.hpp"

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "comm/error.hpp"

namespace ringspan::comm::test {
namespace {

using Clock = std::chrono::steady_clock;

void wait_for(const std::filesystem::path& file, int from, Clock::time_point give_up) {
  while (!std::filesystem::exists(file)) {
    if (Clock::now() > give_up) {
      throw Error(ErrorKind::timeout, concat("rank ", from, " has not come to the all-gather"),
                  {.peer = from});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Bootstrap file_bootstrap(const std::filesystem::path& folder, int rank, int size) {
  const auto round = std::make_shared<int>(0);
  const auto all_gather = [=](const std::byte* mine, std::byte* all, std::size_t bytes,
                              double deadline) {
    const auto file = [&](int r) { return folder / concat("gather.", *round, ".", r); };
    const auto unfinished = folder / concat("unfinished.", rank);
    std::ofstream(unfinished, std::ios::binary)
        .write(reinterpret_cast<const char*>(mine), static_cast<std::streamsize>(bytes));
    std::filesystem::rename(unfinished, file(rank));  // whole or not there
    const auto give_up = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(deadline));
    for (int r = 0; r < size; ++r) {
      wait_for(file(r), r, give_up);
      std::ifstream(file(r), std::ios::binary)
          .read(reinterpret_cast<char*>(all + r * bytes), static_cast<std::streamsize>(bytes));
    }
    ++*round;
  };
  return {rank, size, all_gather};
}

}  // namespace ringspan::comm::test
