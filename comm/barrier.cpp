// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "comm/collectives.hpp"

namespace ringspan::comm {

void barrier(const Communicator& comm) {
  const std::int64_t rank = comm.rank(), size = comm.size();
  // After the round of distance d a rank knows of the 2 d - 1 ranks before it and itself. The
  // messages are real but empty.
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    Send sends[] = {{static_cast<int>((rank + distance) % size), {}}};
    Recv recvs[] = {{static_cast<int>((rank + size - distance) % size), {}}};
    comm.post("barrier", sends, recvs).wait();
  }
  comm.device().synchronize(comm.deadline());
}

}  // namespace ringspan::comm
