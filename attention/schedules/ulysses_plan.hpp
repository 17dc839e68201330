// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "attention/schedule.hpp"
#include "attention/schedules/shard_contract.hpp"
#include "attention/schedules/ulysses_cut.hpp"

namespace ringspan::attention {

/// Collective. The loop of ulysses over its head groups, each of which has an inner plan, [group].
/// `resends`: see ScheduleOptions.
std::unique_ptr<Plan> make_ulysses_plan(comm::Communicator comm, Kernels& kernels,
                                        comm::AllToAllAlgorithm algorithm, ShardContract contract,
                                        UlyssesCut cut, std::vector<std::unique_ptr<Plan>> inner,
                                        bool resends);

}  // namespace ringspan::attention
