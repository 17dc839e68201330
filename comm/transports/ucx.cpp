// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that find each other through MPI, or through the caller's bootstrap, and then
// talk over UCX: shared memory, TCP, InfiniBand, as UCX_TLS and UCX_NET_DEVICES allow.
#include "comm/launch.hpp"
#include "comm/transports/processes/launch.hpp"
#include "comm/transports/ucx/ucx_wire.hpp"
#ifdef RINGSPAN_MPI
#include "comm/transports/mpi/bootstrap.hpp"
#endif

namespace ringspan::comm {

#ifdef RINGSPAN_MPI
Backend mpi_backend();
#endif

namespace ucx {
namespace {

Bootstrap bootstrap_of(const LaunchOptions& options) {
  if (!options.bootstrap) {
#ifdef RINGSPAN_MPI
    return mpi::bootstrap(options.deadline);
#else
    throw Error(ErrorKind::not_available,
                "ucx: this build has no MPI, so LaunchOptions::bootstrap must tell the processes "
                "how to find each other");
#endif
  }
  const Bootstrap& bootstrap = *options.bootstrap;
  RINGSPAN_REQUIRE(bootstrap.size >= 1 && bootstrap.rank >= 0 && bootstrap.rank < bootstrap.size,
                   "ucx: the bootstrap says rank ", bootstrap.rank, " of ", bootstrap.size,
                   "; ranks go from 0 to below the size");
  RINGSPAN_REQUIRE(bootstrap.all_gather, "ucx: the bootstrap has no all_gather");
  return bootstrap;
}

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  processes::launch(options, body, bootstrap_of(options), make_ucx_wire);
#ifdef RINGSPAN_MPI
  if (!options.bootstrap) mpi::set_patience(options.deadline);
#endif
}

Process process() {
#ifdef RINGSPAN_MPI
  return mpi_backend().process();
#else
  return {};
#endif
}

}  // namespace
}  // namespace ucx

Backend ucx_backend() {
  return {"ucx",
          "ranks are processes, over UCX",
          "host",
          [] { return std::string(); },
          ucx::launch_ranks,
          ucx::process};
}

}  // namespace ringspan::comm
