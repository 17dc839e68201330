// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/processes/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <string>

#include "comm/transports/diagnosis/first_failure.hpp"
#ifdef RINGSPAN_MPI
#include "comm/transports/mpi/bootstrap.hpp"
#endif

namespace ringspan::comm::processes {
namespace {

constexpr double kShortestStart = 1.5;  // seconds

/// What all processes must pass alike.
struct Agreed {
  int ranks = 0, ranks_per_node = 0, ranks_per_numa_domain = 0;
  double deadline = 0;
  bool ledger = false, gpu_memory = false;

  bool operator==(const Agreed&) const = default;
};

/// What a step has thrown.
struct Problem {
  bool exists = false;
  ErrorKind kind = ErrorKind::system;
  std::array<char, 256> text = {};
};

void require_same_options(const LaunchOptions& options, const Bootstrap& bootstrap,
                          double deadline) {
  const Agreed mine{options.ranks,    options.ranks_per_node, options.ranks_per_numa_domain,
                    options.deadline, options.debug.ledger,   options.gpu_memory};
  const std::vector<Agreed> all = all_gather(bootstrap, mine, deadline);
  for (int process = 1; process < bootstrap.size; ++process) {
    RINGSPAN_REQUIRE(all[process] == all[0], "launch: process ", process, " asks for ",
                     all[process].ranks, " ranks, ", all[process].ranks_per_node, " per node, ",
                     all[process].ranks_per_numa_domain, " per NUMA domain, a deadline of ",
                     all[process].deadline, " s, ledger ", all[process].ledger, ", GPU memory ",
                     all[process].gpu_memory, "; process 0 for ", all[0].ranks, ", ",
                     all[0].ranks_per_node, ", ", all[0].ranks_per_numa_domain, ", ",
                     all[0].deadline, " s, ", all[0].ledger, ", ", all[0].gpu_memory,
                     "; all must pass the same");
  }
}

}  // namespace

Bootstrap bootstrap_of(std::string_view transport, const LaunchOptions& options) {
  if (!options.bootstrap) {
#ifdef RINGSPAN_MPI
    return mpi::bootstrap(options.deadline);
#else
    throw Error(
        ErrorKind::not_available,
        concat(transport, ": this build has no MPI, so LaunchOptions::bootstrap must tell the ",
               "processes how to find each other"));
#endif
  }
  const Bootstrap& bootstrap = *options.bootstrap;
  RINGSPAN_REQUIRE(bootstrap.size >= 1 && bootstrap.rank >= 0 && bootstrap.rank < bootstrap.size,
                   transport, ": the bootstrap says rank ", bootstrap.rank, " of ", bootstrap.size,
                   "; ranks go from 0 to below the size");
  RINGSPAN_REQUIRE(bootstrap.all_gather, transport, ": the bootstrap has no all_gather");
  return bootstrap;
}

bool has_launcher() {
#ifdef RINGSPAN_MPI
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable)) return true;
#endif
  return false;
}

Process own_process([[maybe_unused]] double deadline) {
  if (!has_launcher()) return {};
#ifdef RINGSPAN_MPI
  // MPI may be asked by one thread only, this by any once it is known.
  static const Process own = mpi::process(deadline);
  return own;
#else
  return {};
#endif
}

void part_well([[maybe_unused]] const LaunchOptions& options, const std::function<void()>& launch) {
  std::optional<Error> failure;  // by which somebody may be gone
  const auto tell_mpi = [&] {
#ifdef RINGSPAN_MPI
    if (options.bootstrap) return;
    failure ? mpi::set_last_words(failure->what(), failure->where().peer != 0)
            : mpi::set_patience(options.deadline);
#endif
  };
  try {
    launch();
  } catch (const Error& error) {
    const ErrorKind kind = error.kind();
    if (kind != ErrorKind::invalid_argument && kind != ErrorKind::not_available) failure = error;
    tell_mpi();
    throw;
  }
  tell_mpi();
}

double start_deadline(const LaunchOptions& options) {
  return std::max(options.deadline, kShortestStart);
}

bool are_apart(const LaunchOptions& options) {
  return options.bootstrap || own_process(options.deadline).size > 1;
}

std::shared_ptr<const cuda::Gpu> gpu_of(const std::vector<Seat>& seats, int process) {
  const auto cuda = cuda::load_cuda();
  return std::make_shared<const cuda::Gpu>(
      cuda, rank_on_host(seats, process) % cuda::device_count(*cuda));
}

void all_or_none(const Bootstrap& bootstrap, double deadline, const std::function<void()>& step) {
  Problem problem;
  try {
    step();
  } catch (...) {  // also what the caller's functions throw
    const Error error = diagnosis::failure_of_rank(bootstrap.rank, std::current_exception()).thrown;
    problem = {true, error.kind(), {}};
    std::string(error.what()).copy(problem.text.data(), problem.text.size() - 1);
  }
  for (const Problem& told : all_gather(bootstrap, problem, deadline))
    if (told.exists) throw Error(told.kind, told.text.data());
}

std::vector<Seat> agree(const LaunchOptions& options, const Bootstrap& bootstrap) {
  RINGSPAN_REQUIRE(options.ranks <= bootstrap.size, "launch: ", options.ranks,
                   " ranks need as many processes; there are ", bootstrap.size,
                   " (mpirun -n and srun -n say how many to start)");
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "launch: hops by reference need one address space; across processes, copy");
  require_same_options(options, bootstrap, start_deadline(options));
  return all_gather(bootstrap, own_seat(), start_deadline(options));
}

}  // namespace ringspan::comm::processes
