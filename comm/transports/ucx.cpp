// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that find each other through MPI, or through the caller's bootstrap, and then
// talk over UCX: shared memory, TCP, InfiniBand, as UCX_TLS and UCX_NET_DEVICES allow.
#include "comm/launch.hpp"
#include "comm/transports/processes/agreement.hpp"
#include "comm/transports/processes/launch.hpp"
#include "comm/transports/ucx/ucx_wire.hpp"

namespace ringspan::comm {
namespace ucx {
namespace {

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  processes::part_well(options, [&] {
    processes::launch(options, body, processes::bootstrap_of("ucx", options), make_ucx_wire);
  });
}

}  // namespace
}  // namespace ucx

Backend ucx_backend() {
  return {"ucx",
          "ranks are processes, over UCX",
          "host",
          [] { return std::string(); },
          ucx::launch_ranks,
          processes::own_process};
}

}  // namespace ringspan::comm
