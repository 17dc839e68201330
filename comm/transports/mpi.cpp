// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that mpirun or srun has started; a program started alone is a world of one.
#include "comm/launch.hpp"
#include "comm/transports/mpi/mpi_wire.hpp"
#include "comm/transports/mpi/session.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/launch.hpp"

namespace ringspan::comm {
namespace mpi {
namespace {

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(!options.bootstrap, "mpi: it is its own bootstrap and takes no other");
  Session& session = Session::instance(options.deadline);
  const auto make_wire = [&](const Bootstrap& bootstrap, double deadline) {
    return make_mpi_wire(session, session.tags(), bootstrap, deadline);
  };
  processes::part_well(options,
                       [&] { processes::launch(options, body, session.bootstrap(), make_wire); });
}

}  // namespace
}  // namespace mpi

Backend mpi_backend() {
  return {"mpi",
          "ranks are processes, over MPI",
          "host",
          [] { return std::string(); },
          mpi::launch_ranks,
          processes::own_process};
}

}  // namespace ringspan::comm
