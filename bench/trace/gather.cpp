// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/gather.hpp"

#include <cstring>

#include "comm/batch.hpp"
#include "comm/collectives.hpp"

namespace ringspan::bench {

std::vector<std::string> gather(const comm::Communicator& comm, const std::string& text) {
  const auto own = static_cast<std::int64_t>(text.size());
  const std::vector<std::int64_t> sizes = comm::all_gather_values(comm, own);
  const comm::Buffer sent = comm.device().allocate_values(own);
  if (own > 0) std::memcpy(sent.data(), text.data(), text.size());
  comm::Batch batch;
  batch.send(0, comm::whole(sent));
  std::vector<comm::Buffer> received;
  for (int rank = 0; comm.rank() == 0 && rank < comm.size(); ++rank) {
    received.push_back(comm.device().allocate_values(sizes[rank]));
    batch.receive(rank, comm::whole(received.back()));
  }
  std::move(batch).post(comm, "gather").wait();
  std::vector<std::string> texts;
  for (const comm::Buffer& buffer : received) {
    texts.emplace_back(reinterpret_cast<const char*>(buffer.data()),
                       static_cast<std::size_t>(buffer.bytes()));
  }
  return texts;
}

}  // namespace ringspan::bench
