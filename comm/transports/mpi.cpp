// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that mpirun or srun has started; a program started alone is a world of one.
#include <cstdlib>

#include "comm/launch.hpp"
#include "comm/transports/mpi/mpi_wire.hpp"
#include "comm/transports/mpi/session.hpp"
#include "comm/transports/processes/launch.hpp"

namespace ringspan::comm {
namespace mpi {
namespace {

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(!options.bootstrap, "mpi: it is its own bootstrap and takes no other");
  Session& session = Session::instance(options.deadline);
  processes::launch(options, body, session.bootstrap(),
                    [&](const Bootstrap& bootstrap, double deadline) {
                      return make_mpi_wire(session, bootstrap, deadline);
                    });
  session.set_patience(options.deadline);
}

// What launchers leave in the environment. Asking MPI itself would start it, which takes a while.
bool has_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable)) return true;
  return false;
}

Process process() {
  if (!has_launcher()) return {};
  const Session& session = Session::instance(launch_options_from_environment().deadline);
  return {session.rank(), session.size()};
}

}  // namespace
}  // namespace mpi

Backend mpi_backend() {
  return {"mpi",
          "ranks are processes, over MPI",
          "host",
          [] { return std::string(); },
          mpi::launch_ranks,
          mpi::process};
}

}  // namespace ringspan::comm
