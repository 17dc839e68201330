// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/mpi/roll_call.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/processes/patience.hpp"

namespace ringspan::comm::mpi {
namespace {

/// What the launcher tells a process.
struct Job {
  Job() {
    const auto text = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value ? value : "");
    };
    const auto number = [&](const char* name) { return std::atoi(text(name).c_str()); };
    folder = text("PMIX_SERVER_TMPDIR");
    name = text("PMIX_NAMESPACE");
    local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK");
    local_size = number("OMPI_COMM_WORLD_LOCAL_SIZE");
    one_host = local_size == number("OMPI_COMM_WORLD_SIZE");
  }

  std::filesystem::path mark(int rank) const {
    return folder / concat("ringspan-", name, "-", rank);
  }

  std::filesystem::path folder;  // on this host, removed with the job
  std::string name;
  int local_rank = 0, local_size = 0;
  bool one_host = false;  // local ranks are then those of the world
};

std::string host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<int> missing(const Job& job) {
  std::vector<int> ranks;
  std::error_code ignored;
  for (int rank = 0; rank < job.local_size; ++rank)
    if (!std::filesystem::exists(job.mark(rank), ignored)) ranks.push_back(rank);
  return ranks;
}

}  // namespace

void call_roll(double deadline) {
  const Job job;
  if (job.folder.empty() || !std::ofstream(job.mark(job.local_rank))) return;
  const std::int64_t start = diagnosis::steady_now();
  processes::Idling idling(true, kStartNap);
  for (;;) {
    const std::vector<int> ranks = missing(job);
    if (ranks.empty()) return;
    if (static_cast<double>(diagnosis::steady_now() - start) * 1e-9 > deadline)
      throw Error(
          ErrorKind::timeout,
          concat("launch: no sign of ", job.one_host ? "" : "local ", "rank ", name_list(ranks),
                 job.one_host ? "" : " of host " + host(), " within ", deadline, " s"),
          {-1, job.one_host ? ranks.front() : -1, "launch"});
    idling.pause();
  }
}

}  // namespace ringspan::comm::mpi
