// SPDX-License-Identifier: Apache-2.0
#include "model/loss.hpp"

#include "comm/collectives.hpp"

namespace ringspan::model {

LossSum all_reduce(const comm::Communicator& comm, const LossSum& own) {
  LossSum total;
  for (const LossSum& part : comm::all_gather_values(comm, own)) total += part;
  return total;
}

}  // namespace ringspan::model
