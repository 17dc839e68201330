// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, each with a GPU of its own. A batch is one group of NCCL's sends
// and receives on the rank's transfer stream. Ranks post in one order across all their groups, so
// one communicator serves them all, and a group costs nothing.
#include "comm/transports/nccl/connection.hpp"
#include "comm/transports/streams/launch.hpp"

namespace ringspan::comm {
namespace nccl {
namespace {

void launch_ranks(const LaunchOptions& options, const RankFunction& body) {
  RINGSPAN_REQUIRE(options.hop == Hop::copy,
                   "nccl: hops by reference need one memory; between GPUs, copy");
  const auto cuda = cuda::load_cuda();
  const auto nccl = load_nccl();
  RINGSPAN_REQUIRE(options.ranks <= cuda::device_count(*cuda), "nccl: ", options.ranks,
                   " ranks need as many GPUs; there are ", cuda::device_count(*cuda));
  UniqueId id;
  if (nccl->get_unique_id(&id) != kSuccess)
    throw Error(ErrorKind::system, "nccl: ncclGetUniqueId has failed");
  const auto pairs = std::make_shared<Pairs>(options.debug.ledger);
  streams::launch_threads(
      options, body, cuda, [&](const std::shared_ptr<const cuda::Gpu>& gpu, int rank) {
        return std::make_unique<Connection>(nccl, gpu, pairs, id, options.ranks, rank);
      });
}

std::string unavailable() {
  try {
    cuda::load_cuda();
    load_nccl();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string found() {
  const auto cuda = cuda::load_cuda();
  return concat("NCCL ", version_text(*load_nccl()), "; ", cuda::device_count(*cuda),
                " GPUs, the first ", cuda::device_name(*cuda, 0));
}

}  // namespace
}  // namespace nccl

Backend nccl_backend() {
  return {"nccl",
          "ranks are threads of this process, each with a GPU, over NCCL",
          "gpu",
          nccl::unavailable,
          nccl::launch_ranks,
          nullptr,
          nccl::found};
}

}  // namespace ringspan::comm
