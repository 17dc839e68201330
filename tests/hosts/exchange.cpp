// SPDX-License-Identifier: Apache-2.0
// One all-to-all over all processes: exchange TRANSPORT BYTES_PER_PAIR. Prints a line per rank: its
// node, and the bytes that the library counts as sent to other nodes.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "comm/all_to_all.hpp"
#include "comm/collectives.hpp"
#include "comm/launch.hpp"

namespace {

using namespace ringspan;
using namespace ringspan::comm;

void exchange(const Communicator& comm, std::int64_t bytes) {
  const Traffic before = comm.traffic();
  const Buffer sent = comm.device().allocate(bytes * comm.size());
  const Buffer received = comm.device().allocate(bytes * comm.size());
  all_to_all(comm, whole(sent), whole(received));
  const auto counted =
      all_gather_values(comm, comm.traffic().inter_node_bytes_sent - before.inter_node_bytes_sent);
  if (comm.rank() > 0) return;
  for (int rank = 0; rank < comm.size(); ++rank)
    std::printf("%d %lld\n", comm.place(rank).node, static_cast<long long>(counted[rank]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "exchange TRANSPORT BYTES_PER_PAIR\n");
    return 2;
  }
  try {
    LaunchOptions options = launch_options_from_environment();
    options.ranks = backend(argv[1]).process(options.deadline).size;
    launch(argv[1], options,
           [&](const Communicator& comm) { exchange(comm, std::strtoll(argv[2], nullptr, 10)); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
