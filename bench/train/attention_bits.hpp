// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/schedule.hpp"

namespace ringspan::bench {

/// A sum of 64 bits over all values of a tensor, each mixed with its place in the whole tensor: the
/// same however the tensor is spread over ranks, another one if any bit of it differs.
using AttentionBits = std::uint64_t;

/// A schedule that works as another does, and takes down the bits of what it gives: of each forward
/// pass the output, of each backward pass dq, dk and dv, in the order in which they come.
class ObservedSchedule final : public attention::Schedule {
 public:
  /// `schedule` outlives it, and plans do not outlive it. `tensor_rank`: which of the equal parts
  /// of the heads this rank has.
  ObservedSchedule(attention::Schedule& schedule, int tensor_rank)
      : schedule_(schedule), log_{.tensor_rank = tensor_rank} {}

  /// From now on, of samples from `first_sample` on; or of nothing.
  void observe(bool observed, std::int64_t first_sample);

  /// Collective: of all ranks together, since observe().
  std::vector<AttentionBits> bits(const comm::Communicator& world) const;

  attention::Shard shard(const attention::Sequence& sequence) const override {
    return schedule_.shard(sequence);
  }
  void require_possible(const attention::Problem& problem) const override {
    schedule_.require_possible(problem);
  }
  std::unique_ptr<attention::Plan> plan(const attention::Problem& problem) override;

  struct Log {
    int tensor_rank = 0;
    bool observed = false;
    std::int64_t first_sample = 0;
    std::vector<AttentionBits> bits = {};  // of this rank's share
  };

 private:
  attention::Schedule& schedule_;
  Log log_;
};

}  // namespace ringspan::bench
